// What strangers and broken peers do to a tcp endpoint: they lose their connection, nobody else
// does.
#include <cstring>
#include <doctest/doctest.h>
#include <string_view>

#include "tests/transport/raw_socket.h"
#include "tests/transport/two_nodes.h"
#include "schemas/checksum.h"
#include "transport/registry.h"

namespace {

using namespace shoal;
using namespace shoal::testing;
using transport::FrameHeader;
using transport::FrameType;
using transport::Hello;
using transport::Refusal;

// Node 1 under test, node 2 in order, and node 3 played by the test with raw sockets.
struct FaultBed : TwoNodes<TcpRow> {
  explicit FaultBed(const TransportLimits& limits = {.idle = kNeverIdle})
      : TwoNodes<TcpRow>(limits) {
    a->transport->set_peer(address_of(NodeId{3}, IncarnationId{1}, raw.port()));
    a->receive(1);
    REQUIRE(a->transport->offer(BufferKey{1}, bytes_of(4 << 20, 1)).has_value());
    REQUIRE(b->transport->offer(BufferKey{1}, bytes_of(1000, 1)).has_value());
  }

  ~FaultBed() { a->transport->stop(); }

  Hello hello() const {
    Hello hello;
    hello.cluster = crc32c(std::as_bytes(std::span(std::string_view("conformance"))));
    hello.from = NodeId{3};
    hello.from_incarnation = IncarnationId{1};
    hello.to = a->id;
    hello.to_incarnation = a->incarnation;
    return hello;
  }

  RawSocket say(const Hello& hello) const {
    RawSocket socket = RawSocket::to(a->transport->port());
    socket.write_frame({.type = FrameType::kHello}, encode(hello));
    return socket;
  }

  RawSocket welcomed() const {
    RawSocket socket = say(hello());
    const auto answer = socket.read_frame();
    REQUIRE(answer.has_value());
    REQUIRE(answer->type == FrameType::kWelcome);
    return socket;
  }

  // Node 1 dials node 3, which welcomes it and has read its fetch.
  RawSocket dialed() {
    a->fetch(NodeId{3}, BufferKey{9});
    RawSocket socket = raw.accept();
    REQUIRE(socket.read_frame()->type == FrameType::kHello);
    socket.write_frame({.type = FrameType::kWelcome, .argument = 1000});
    const auto fetch = socket.read_frame();
    REQUIRE(fetch.has_value());
    REQUIRE(fetch->type == FrameType::kFetch);
    sequence = fetch->sequence;
    return socket;
  }

  // The others go on as if nothing had happened.
  void check_others() {
    const std::size_t before = b->fetched.size();
    b->fetch(a->id, BufferKey{1});
    CHECK(count_of_values(b->fetched.wait(before + 1)) == before + 1);
    Inbox<bool> fetched;
    a->transport->fetch(b->id, BufferKey{1}, later(), [&fetched](const Result<Buffer>& bytes) {
      fetched.put(bytes.has_value());
    });
    CHECK(fetched.wait(1) == std::vector<bool>{true});
  }

  RawListener raw;
  std::uint64_t sequence = 0;
};

FrameHeader message(std::uint64_t sequence, std::uint64_t size) {
  return {.type = FrameType::kMessage, .channel = 1, .sequence = sequence, .argument = size};
}

}  // namespace

TEST_CASE("a frame's header survives its encoding, and no bit of it may turn") {
  const FrameHeader header{FrameType::kPiece, 7, 0x1234567890, 0xabcdef, 4096, 99};
  const transport::HeaderBytes bytes = encode(header);
  const auto decoded = transport::decode_header(bytes);
  REQUIRE(decoded.has_value());
  CHECK(encode(*decoded) == bytes);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    transport::HeaderBytes turned = bytes;
    turned[bit / 8] ^= static_cast<std::byte>(1 << (bit % 8));
    CHECK(transport::decode_header(turned).error().code == Code::kCorrupt);
  }
}

TEST_CASE("the checksum is CRC-32C, in one piece or several") {
  const auto text = std::as_bytes(std::span(std::string_view("123456789")));
  CHECK(crc32c(text) == 0xe3069283);  // the check value of the CRC catalogue
  CHECK(crc32c(text.subspan(4), crc32c(text.first(4))) == 0xe3069283);
}

TEST_CASE("garbage at the port ends its connection only") {
  FaultBed bed;
  MESSAGE("seed 3");
  std::mt19937_64 random(3);
  for (int i = 0; i < 20; ++i) {
    RawSocket socket = RawSocket::to(bed.a->transport->port());
    socket.write(*bytes_of(36 + random() % 100'000, random()));
    CHECK(socket.is_ended_by_peer());
  }
  bed.check_others();
}

TEST_CASE("garbage after the welcome ends its connection only") {
  FaultBed bed;
  RawSocket socket = bed.welcomed();
  socket.write(*bytes_of(1000, 1));
  CHECK(socket.is_ended_by_peer());
  bed.check_others();
}

TEST_CASE("a payload that differs from its checksum ends its connection") {
  FaultBed bed;
  RawSocket socket = bed.welcomed();
  FrameHeader header = message(1, 10);
  header.length = 10;
  header.checksum = 1;
  socket.write(encode(header));
  socket.write(*bytes_of(10, 1));
  CHECK(socket.is_ended_by_peer());
  CHECK(bed.a->received.size() == 0);
  bed.check_others();
}

TEST_CASE("sizes that a peer may not announce end its connection") {
  FaultBed bed;
  SUBCASE("of a frame") {
    RawSocket socket = bed.welcomed();
    FrameHeader header = message(1, 1 << 20);
    header.length = 0xffffffff;
    socket.write(encode(header));
    CHECK(socket.is_ended_by_peer());
  }
  SUBCASE("of a message") {
    RawSocket socket = bed.welcomed();
    socket.write_frame(message(1, ~std::uint64_t{0}), *bytes_of(10, 1));
    CHECK(socket.is_ended_by_peer());
  }
  SUBCASE("of a message that changes on its way") {
    RawSocket socket = bed.welcomed();
    socket.write_frame(message(1, 100), *bytes_of(10, 1));
    socket.write_frame(message(1, 200), *bytes_of(10, 1));
    CHECK(socket.is_ended_by_peer());
  }
  SUBCASE("of more than was announced") {
    RawSocket socket = bed.welcomed();
    socket.write_frame(message(1, 15), *bytes_of(10, 1));
    socket.write_frame(message(1, 15), *bytes_of(10, 1));
    CHECK(socket.is_ended_by_peer());
  }
  SUBCASE("of a request, which has no payload") {
    RawSocket socket = bed.welcomed();
    socket.write_frame({.type = FrameType::kFetch, .sequence = 1, .argument = 1}, *bytes_of(10, 1));
    CHECK(socket.is_ended_by_peer());
  }
  CHECK(bed.a->received.size() == 0);
  bed.check_others();
}

TEST_CASE("a hello of another version, cluster, target or incarnation is refused by name") {
  FaultBed bed;
  Hello hello = bed.hello();
  Refusal reason{};
  SUBCASE("version") {
    hello.version = 2;
    reason = Refusal::kVersion;
  }
  SUBCASE("cluster") {
    hello.cluster = 1;
    reason = Refusal::kCluster;
  }
  SUBCASE("target node") {
    hello.to = NodeId{8};
    reason = Refusal::kTarget;
  }
  SUBCASE("target incarnation") {
    hello.to_incarnation = IncarnationId{8};
    reason = Refusal::kTarget;
  }
  SUBCASE("stranger") {
    hello.from = NodeId{8};
    reason = Refusal::kStranger;
  }
  SUBCASE("incarnation") {
    hello.from_incarnation = IncarnationId{8};
    reason = Refusal::kStranger;
  }
  RawSocket socket = bed.say(hello);
  const auto answer = socket.read_frame();
  REQUIRE(answer.has_value());
  CHECK(answer->type == FrameType::kRefused);
  CHECK(answer->channel == static_cast<std::uint8_t>(reason));
  CHECK(socket.is_ended_by_peer());
  bed.check_others();
}

TEST_CASE("a node of another cluster or life cannot be fetched from") {
  FaultBed bed;
  auto other = transport::open_transport(
      "tcp", {NodeId{4}, IncarnationId{1}, "another", "127.0.0.1", 0, {}, clock_now});
  REQUIRE(other.has_value());
  bed.a->transport->set_peer(address_of(NodeId{4}, IncarnationId{1}, (*other)->port()));
  (*other)->set_peer(bed.a->address());
  bed.a->fetch(NodeId{4}, BufferKey{1});
  bed.a->transport->set_peer({NodeId{5}, IncarnationId{9}, "127.0.0.1", bed.b->transport->port()});
  bed.a->fetch(NodeId{5}, BufferKey{1});
  CHECK(count_of(bed.a->fetched.wait(2), Code::kPeerLost) == 2);
  bed.check_others();
}

TEST_CASE("a connection that stops in the middle of a hello or a message is lost when idle") {
  FaultBed bed({.idle = std::chrono::milliseconds(300)});
  RawSocket half_hello = RawSocket::to(bed.a->transport->port());
  half_hello.write(std::span<const std::byte>(encode(FrameHeader{})).first(20));
  RawSocket half_message = bed.welcomed();
  half_message.write_frame(message(1, 100), *bytes_of(10, 1));
  CHECK(half_hello.is_ended_by_peer());
  CHECK(half_message.is_ended_by_peer());
  CHECK(bed.a->received.size() == 0);
  bed.check_others();
}

TEST_CASE("a welcomed connection without work stays, however long it is idle") {
  FaultBed bed({.idle = std::chrono::milliseconds(200)});
  RawSocket quiet = bed.welcomed();
  RawSocket silent = RawSocket::to(bed.a->transport->port());
  CHECK(silent.is_ended_by_peer());  // so the idle limit has passed
  quiet.write_frame(message(1, 5), *bytes_of(5, 1));
  CHECK(quiet.read_frame()->type == FrameType::kHandled);
}

TEST_CASE("a peer that reads nothing loses its connection, not the node's memory") {
  FaultBed bed({.operations_per_peer = 10, .idle = std::chrono::milliseconds(300)});
  SUBCASE("of a buffer") {
    // More than both sockets hold.
    const auto large = std::make_shared<std::vector<std::byte>>(std::size_t{64} << 20);
    REQUIRE(bed.a->transport->offer(BufferKey{2}, large).has_value());
    RawSocket socket = bed.welcomed();
    socket.write_frame({.type = FrameType::kFetch, .sequence = 1, .argument = 2});
    bed.check_others();
    bed.a->transport->fetch(
        NodeId{3}, BufferKey{1}, later(), [&](Result<Buffer> bytes) { bed.a->fetched.put(bytes); });
    CHECK(count_of(bed.a->fetched.wait(1), Code::kPeerLost) == 1);  // silent too: idle has passed
    CHECK(socket.is_ended_by_peer());
  }
  SUBCASE("of more fetches than it may have") {
    RawSocket socket = bed.welcomed();
    for (std::uint64_t i = 0; i < 11; ++i) {
      socket.write_frame({.type = FrameType::kFetch, .sequence = i, .argument = 1});
    }
    CHECK(socket.is_ended_by_peer());
  }
  bed.check_others();
}

TEST_CASE("a peer that stops in mid-transfer loses its fetch when idle, not another's") {
  FaultBed bed({.idle = std::chrono::milliseconds(300)});
  RawSocket socket = bed.dialed();
  socket.write_frame({.type = FrameType::kPiece, .sequence = bed.sequence, .argument = 100'000},
                     *bytes_of(1000, 1));
  bed.check_others();
  CHECK(count_of(bed.a->fetched.wait(1), Code::kPeerLost) == 1);
}

TEST_CASE("a peer killed in mid-transfer loses its fetch at once") {
  FaultBed bed;
  {
    RawSocket socket = bed.dialed();
    socket.write_frame({.type = FrameType::kPiece, .sequence = bed.sequence, .argument = 100'000},
                       *bytes_of(1000, 1));
  }
  CHECK(count_of(bed.a->fetched.wait(1), Code::kPeerLost) == 1);
  bed.check_others();
}

TEST_CASE("a peer that lies in its answer fails the fetch as corrupt") {
  FaultBed bed({.buffer = Bytes{8 << 20}, .idle = kNeverIdle});
  RawSocket socket = bed.dialed();
  const std::uint64_t sequence = bed.sequence;
  SUBCASE("about the size of the buffer") {
    socket.write_frame(
        {.type = FrameType::kPiece, .sequence = sequence, .argument = std::uint64_t{1} << 60},
        *bytes_of(1000, 1));
  }
  SUBCASE("with bytes that differ from their checksum") {
    FrameHeader piece{FrameType::kPiece, 0, sequence, 10, 10, 1};
    socket.write(encode(piece));
    socket.write(*bytes_of(10, 1));
  }
  SUBCASE("with a frame that only a dialer sends") {
    socket.write_frame({.type = FrameType::kFetch, .sequence = 1});
  }
  SUBCASE("about a message that was never sent") {
    socket.write_frame({.type = FrameType::kHandled, .sequence = 77});
  }
  CHECK(count_of(bed.a->fetched.wait(1), Code::kCorrupt) == 1);
  bed.check_others();
}

TEST_CASE("a half-open connection is served and then ended") {
  FaultBed bed;
  RawSocket socket = bed.welcomed();
  socket.write_frame(message(1, 5), *bytes_of(5, 1));
  socket.shut_down_writes();
  CHECK(socket.is_ended_by_peer());
  CHECK(bed.a->received.wait(1).size() == 1);
  bed.check_others();
}

TEST_CASE("three hundred silent connections are ended, and peers get in between them") {
  FaultBed bed({.idle = std::chrono::milliseconds(500)});
  std::vector<RawSocket> silent;
  for (int i = 0; i < 300; ++i) {
    silent.push_back(RawSocket::to(bed.a->transport->port()));
  }
  bed.check_others();
  for (RawSocket& socket : silent) {
    CHECK(socket.is_ended_by_peer());
  }
}

TEST_CASE("a port that is taken, an address that is not one and a row that is none are named") {
  FaultBed bed;
  const auto open = [&](const char* row, const char* host, std::uint16_t port) {
    return transport::open_transport(
        row, {NodeId{4}, IncarnationId{1}, "conformance", host, port, {}, clock_now});
  };
  CHECK(open("tcp", "127.0.0.1", bed.a->transport->port()).error().code == Code::kMisconfigured);
  const auto no_address = open("tcp", "localhost.invalid", 0);
  CHECK(no_address.error().code == Code::kMisconfigured);
  CHECK(no_address.error().message.find("localhost.invalid") != std::string::npos);
  CHECK(open("carrier_pigeon", "127.0.0.1", 0).error().code == Code::kMisconfigured);
}
