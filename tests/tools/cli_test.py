#!/usr/bin/env python3
"""Whatever is wrong with a command line, a file or a port: one line that names it, a non-zero status, no hang."""
import json
import os
import re
import shutil
import socket
import struct
import subprocess
import tempfile
import unittest

import shoal_program
from shoal_program import GUPPY, run

BENCHES = ["autoscale", "cost", "decode", "engine", "experts", "kv", "prefill", "verify", "vision"]
COMMANDS = [["serve"], ["node"], ["chat"], ["explain"], ["sim"], ["generate"], ["codec"], ["codec", "render"], ["codec", "tokenize"], ["codec", "decode"],
            ["codec", "parse"], ["tokenize"], ["models"], ["config"], ["bench"], *(["bench", name] for name in BENCHES), ["kv"], ["kv", "stat"], ["kv", "ls"],
            ["kv", "verify"], ["kv", "scrub"], ["kv", "evict"], ["kv", "export"], ["plan"], ["version"]]


class OneLine(unittest.TestCase):
    def refused(self, arguments, *words, status=1):
        """Exactly one line on stderr, with these words in it."""
        done = run(*arguments)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("shoal: "), done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        return done.stderr


class Arguments(OneLine):
    def test_without_arguments_the_help_is_printed(self):
        done = run()
        self.assertEqual((done.returncode, done.stderr), (2, ""))
        self.assertIn("Examples:", done.stdout)

    def test_every_command_has_help_with_an_example(self):
        for command in [[]] + COMMANDS:
            with self.subTest(command=command):
                done = run(*command, "--help")
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"Examples?:\n  .*shoal")

    def test_the_help_of_a_server_tells_ranges_and_defaults(self):
        text = " ".join(run("serve", "--help").stdout.split())
        for part in ("TCP port; 0: any free one (0 .. 65535, default 8000)", "(1 .. 4096, default 64)", '(bounded, exact, default "bounded")',
                     "(1048576 .. 1125899906842624, default 8589934592)"):
            self.assertIn(part, text)

    def test_the_help_of_the_program_lists_every_command(self):
        text = run("--help").stdout
        for command in COMMANDS:
            self.assertRegex(text if len(command) == 1 else run(command[0], "--help").stdout, rf"\n  {command[-1]}\s")

    def test_an_unknown_flag_names_the_nearest_known_one(self):
        cases = {"--prot": [["serve"], ["chat"], ["config"]], "--max-num-seq": [["serve"]], "--efort": [["chat"]],
                 "--max-token": [["generate"]], "--modle": [["generate"], ["tokenize"], ["codec", "render"], ["bench", "engine"]],
                 "--tokeniser": [["codec", "parse"], ["codec", "tokenize"], ["codec", "decode"]], "--parse-specials": [["tokenize"]],
                 "--stps": [["bench", "engine"]], "--hlep": [["models"], ["version"], ["codec"], ["bench"], []]}
        meant = {"--prot": "--port", "--max-num-seq": "--max-num-seqs", "--efort": "--effort", "--max-token": "--max-tokens",
                 "--modle": "--model", "--tokeniser": "--tokenizer", "--parse-specials": "--parse-special", "--stps": "--steps",
                 "--hlep": "--help"}
        for flag, commands in cases.items():
            for command in commands:
                with self.subTest(flag=flag, command=command):
                    self.refused([*command, flag + "=1"], f"'{flag}'", f"'{meant[flag]}'", f"`{' '.join(['shoal', *command])} --help`",
                                 status=2)

    def test_an_unknown_command_names_the_nearest_known_one(self):
        for words, known in [(["serv"], "serve"), (["caht"], "chat"), (["versoin"], "version"), (["codec", "rendr"], "render"),
                             (["codec", "tokenise"], "tokenize"), (["bench", "engin"], "engine")]:
            with self.subTest(words=words):
                self.refused(words, f"'{words[-1]}'", f"'{known}'", status=2)

    def test_a_group_without_its_command_is_refused(self):
        self.refused(["codec"], "shoal codec --help", status=2)
        self.refused(["bench"], "shoal bench --help", status=2)

    def test_a_word_too_many_is_named(self):
        self.refused(["version", "please"], "'please'", status=2)

    def test_a_flag_without_its_value_is_named(self):
        self.refused(["serve", "--port"], "--port", status=2)

    def test_a_bad_value_names_the_flag(self):
        # Bounds alone: releases of the argument library word a range differently.
        self.refused(["serve", "--port", "many"], "--port", "many")
        self.refused(["serve", "--port", "70000"], "port", "65535")
        self.refused(["serve", "--replay", "fast"], "replay", "exact")
        self.refused(["serve", "--log-level", "loud"], "log.level", "warning")
        self.refused(["serve", "--set", "http.port"], "--set", "NAME=VALUE")
        self.refused(["chat", "--effort", "huge"], "--effort", status=2)
        self.refused(["chat", "--url", "ftp://x"], "--url", "http://HOST")
        self.refused(["chat", "--url", "http://x", "some-model"], "--url", status=2)
        for value in ("0", "-1", "99999999999"):
            line = self.refused(["generate", "--max-tokens", value], "--max-tokens", value, "1048576", status=2)
            self.assertLess(len(line), 120)
        self.assertLess(len(self.refused(["generate", "--top-k", "-1"], "--top-k", "-1", status=2)), 120)
        self.assertLess(len(self.refused(["generate", "--temperature", "-1"], "--temperature", "-1", status=2)), 120)
        self.refused(["serve", "--port", "99999"], "http.port", "99999", "0 .. 65535")
        self.refused(["serve", "--port", "99999999999"], "--port", "99999999999", "0 .. 65535")
        self.refused(["serve", "--threads", "-1"], "compute.threads", "-1", "0 .. 1024")
        self.refused(["generate", "--threads", "-1"], "--threads", "-1", "1024", status=2)
        self.refused(["generate", "--ids", "1,x"], "--ids", "x")

    def test_a_flag_before_the_command_is_told_to_go_after_it(self):
        self.refused(["--port", "1", "serve"], "flags go after the command: shoal serve --port", "`shoal serve --help`", status=2)
        self.refused(["--port=1", "serve"], "flags go after the command: shoal serve --port.", status=2)
        self.refused(["codec", "--model", "x", "tokenize"], "flags go after the command: shoal codec tokenize --model", status=2)

    def test_a_value_that_is_no_number_is_refused_under_the_option_s_name(self):
        self.refused(["serve", "--set", "decode.max_batch=abc"], 'decode.max_batch: "abc" is not a whole number', "--set")
        self.refused(["config", "--max-num-seqs", "abc"], 'decode.max_batch: "abc" is not a whole number', "--max-num-seqs")

    def test_two_prompts_are_refused_by_name(self):
        self.refused(["generate", "--ids", "0", "--prompt", "Hi"], "--ids", "--prompt", "not both")

    def test_chat_with_a_running_server_refuses_the_flags_of_an_own_one(self):
        for flag in ("--config", "--set", "--host", "--port", "--served-model-name", "--max-model-len", "--max-num-seqs", "--replay",
                     "--threads", "--kv-bytes", "--kv-dir", "--kv-store-bytes", "--log-level"):
            with self.subTest(flag=flag):
                self.refused(["chat", "--url", "http://127.0.0.1:1", flag, "x"], "--url", flag, status=2)
        self.refused(["chat", "--url", "http://127.0.0.1:1", "some-model"], "--url", "model", status=2)

    def test_the_key_of_chat_is_described_as_the_one_it_sends(self):
        self.assertRegex(run("chat", "--help").stdout, r"--api-key[^-]*key sent to the server")
        self.assertRegex(run("serve", "--help").stdout, r"--api-key[^-]*key to let in")

    def test_the_help_of_a_codec_command_says_in_words_what_it_does(self):
        for command, words in [("render", "prompt of a request body"), ("tokenize", "token ids of a text"),
                               ("decode", "text of token ids"), ("parse", "message of a generated answer")]:
            self.assertIn(words, run("codec", command, "--help").stdout)

    def test_an_unknown_option_names_the_nearest_known_one(self):
        self.refused(["serve", "--set", "http.prot=1"], "http.prot", "http.port")
        self.refused(["config", "--set", "kv.byte=1"], "kv.byte", "kv.bytes")

    def test_a_name_unlike_every_known_one_gets_no_guess(self):
        self.assertNotIn("did you mean", self.refused(["serve", "--set", "a=b"], '"a"', "see `shoal config`"))
        self.assertNotIn("did you mean", self.refused(["xyzzy"], "'xyzzy'", "`shoal --help`", status=2))

    def test_a_context_without_room_is_blamed_on_its_own_option(self):
        self.assertNotIn("kv.", self.refused(["serve", "--max-model-len", "1", "--port", "0"], "model.max_model_len: 1"))

    def test_an_empty_path_is_not_the_default(self):
        for command in ("serve", "chat", "config"):
            self.refused([command, ""], "model: is empty", status=2)
        self.refused(["serve", "--config", ""], "--config: is empty", status=2)
        for command in (["generate"], ["tokenize"], ["bench", "engine"]):
            self.refused([*command, "--model", ""], "--model: is empty", status=2)
        for command in ("render", "tokenize", "decode", "parse"):
            for flag in ("--model", "--tokenizer"):
                self.refused(["codec", command, flag, ""], flag + ": is empty", status=2)
        self.refused(["models", ""], "directory: is empty", status=2)
        self.refused(["chat", "--url", ""], "--url: is empty", status=2)

    def test_an_empty_kv_directory_is_refused_with_how_to_keep_none(self):
        for command in ("serve", "chat", "config"):
            self.refused([command, "--kv-dir", ""], "--kv-dir: is empty", "--set kv.store=none", status=2)

    def test_the_flags_of_kv_memory_and_of_the_kv_store_name_each_other(self):
        text = " ".join(run("serve", "--help").stdout.split())
        self.assertRegex(text, r"--kv-bytes \S+ KV memory of the answers in work, bytes; not of the store: --kv-store-bytes")
        shown = run("config", "--kv-bytes", "2000000", "--kv-store-bytes", "3000000").stdout
        self.assertIn("kv.bytes = 2000000  (--kv-bytes)", shown)
        self.assertIn("kv.store_bytes = 3000000  (--kv-store-bytes)", shown)

    def test_generate_without_a_prompt(self):
        for arguments in ([], ["--ids", ""], ["--prompt", ""], ["--ids", "", "--prompt", ""]):
            self.refused(["generate", *arguments], "give --ids or --prompt")


class Files(OneLine):
    def setUp(self):
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)

    def path(self, name):
        return os.path.join(self.directory.name, name)

    def write(self, name, content):
        with open(self.path(name), "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return self.path(name)

    def model(self):
        """A copy of the built-in model to break."""
        copy = self.path("model")
        shutil.copytree(GUPPY, copy, ignore=shutil.ignore_patterns("golden.jsonl", "README.md"))
        return copy

    def edit_config(self, change):
        directory = self.model()
        with open(os.path.join(GUPPY, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
        change(config)
        self.write("model/config.json", json.dumps(config))
        return directory

    def edit_tensor(self, name, **fields):
        directory = self.model()
        with open(os.path.join(directory, "model.safetensors"), "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            header, data = json.loads(file.read(length)), file.read()
        header[name].update(fields)
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        self.write("model/model.safetensors", struct.pack("<Q", len(text)) + text + data)
        return directory

    def refused_by_all(self, model, *words):
        """By every command that opens a model."""
        for arguments in (["serve", model, "--port", "0"], ["chat", model], ["generate", "--model", model, "--ids", "0"]):
            self.refused(arguments, *words)

    def refused_without_weights(self, arguments, *words):
        """By serve, and by config with the same line."""
        line = self.refused(["serve", *arguments, "--port", "0"], *words)
        self.assertEqual(self.refused(["config", *arguments], *words), line)

    def test_an_unknown_key_of_a_config_file(self):
        file = self.write("node.txtpb", 'http {\n  prot: 1\n}\n')
        self.refused(["serve", "--config", file], file, ":2", "prot", "port")

    def test_a_value_of_another_type_in_a_config_file(self):
        file = self.write("node.txtpb", 'http { port: "many" }\n')
        self.refused(["config", "--config", file], file + ":1:14: port: ", "integer", "many")

    def test_a_config_file_that_is_none(self):
        self.refused(["serve", "--config", self.directory.name], self.directory.name + ": is a directory")
        self.refused(["serve", "--config", "/dev/zero"], "/dev/zero: is not a regular file")
        file = self.write("large.txtpb", "#" * (1024 * 1024 + 1))
        self.refused(["config", "--config", file], file + ": is larger than 1 MiB")

    def test_what_needs_no_weights_is_checked_by_config_as_by_serve(self):
        os.mkdir(self.path("empty"))
        self.refused_without_weights([self.path("none")], self.path("none"))
        self.refused_without_weights([self.path("empty")], self.path("empty"), "config.json")
        self.refused_without_weights(["--host", "nowhere"], "--host nowhere", "not an IP address")
        self.refused_without_weights(["--host", "0.0.0.0"], "--api-key")
        self.refused_without_weights(["--api-key", ""], "--api-key is empty")
        self.refused_without_weights(["--threads", "-1"], "compute.threads")
        directory = self.model()
        os.remove(os.path.join(directory, "tokenizer.json"))
        self.refused_without_weights([directory], "tokenizer.json")

    def test_a_config_file_that_is_not_there(self):
        self.refused(["serve", "--config", self.path("none.txtpb")], self.path("none.txtpb"))

    def test_a_model_directory_that_is_not_there(self):
        self.refused_by_all(self.path("none"), self.path("none"))

    def test_a_model_that_is_a_file(self):
        self.refused_by_all(self.write("file", "x"), self.path("file"))

    def test_a_directory_without_a_model(self):
        os.mkdir(self.path("empty"))
        self.refused_by_all(self.path("empty"), self.path("empty"), "config.json")

    @unittest.skipIf(os.geteuid() == 0, "root reads everything")
    def test_a_directory_that_may_not_be_read(self):
        directory = self.model()
        os.chmod(directory, 0)
        self.addCleanup(os.chmod, directory, 0o700)
        self.refused_by_all(directory, directory)

    def test_a_config_that_is_not_json(self):
        directory = self.model()
        self.write("model/config.json", "{ \"text_config\": ")
        self.refused_by_all(directory, "config.json", "JSON")

    def test_a_config_without_a_key(self):
        for key in ("hidden_size", "compress_ratios", "n_routed_experts", "engram_num_embeddings"):
            with self.subTest(key=key):
                directory = self.edit_config(lambda config, key=key: config["text_config"].pop(key))
                self.refused_by_all(directory, "config.json", key)
                shutil.rmtree(directory)

    def test_a_missing_shard_is_named(self):
        directory = self.model()
        os.rename(os.path.join(directory, "model.safetensors"), os.path.join(directory, "model-00001-of-00002.safetensors"))
        with open(os.path.join(directory, "model-00001-of-00002.safetensors"), "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            names = [name for name in json.loads(file.read(length)) if name != "__metadata__"]
        shards = {name: f"model-0000{1 + (i == 7)}-of-00002.safetensors" for i, name in enumerate(names)}
        self.write("model/model.safetensors.index.json", json.dumps({"weight_map": shards}))
        self.refused_by_all(directory, "model-00002-of-00002.safetensors")

    def test_truncated_weights(self):
        for keep in (0, 5, 4000, 3_000_000):
            with self.subTest(keep=keep):
                directory = self.model()
                os.truncate(os.path.join(directory, "model.safetensors"), keep)
                self.refused_by_all(directory, "model.safetensors")
                shutil.rmtree(directory)

    def test_a_tensor_of_another_dtype(self):
        directory = self.edit_tensor("layers.0.attn.attn_sink", dtype="I32")
        self.refused_by_all(directory, "layers.0.attn.attn_sink", "I32", "F32")

    def test_a_tensor_of_another_shape(self):
        directory = self.edit_tensor("layers.0.attn.attn_sink", shape=[2, 2])
        self.refused_by_all(directory, "layers.0.attn.attn_sink", "2, 2")

    def test_a_tokenizer_that_does_not_fit(self):
        directory = self.model()
        file = os.path.join(directory, "tokenizer.json")
        with open(file, encoding="utf-8") as text:
            tokenizer = json.load(text)
        added = tokenizer["added_tokens"]
        added.append({**added[-1], "id": added[-1]["id"] + 1, "content": "<one more than the model has>"})
        self.write("model/tokenizer.json", json.dumps(tokenizer))
        self.refused(["serve", directory, "--port", "0"], file, "2496")

    def test_a_tokenizer_of_another_kind(self):
        directory = self.model()
        self.write("model/tokenizer.json", '{"model": {"type": "WordPiece"}}')
        self.refused_by_all(directory, "tokenizer.json")
        self.refused(["tokenize", "--model", directory, "x"], "tokenizer.json")
        self.refused(["codec", "decode", "--tokenizer", os.path.join(directory, "tokenizer.json")], "tokenizer.json")

    def test_a_tokenizer_that_is_not_there(self):
        directory = self.model()
        os.remove(os.path.join(directory, "tokenizer.json"))
        self.refused_by_all(directory, "tokenizer.json")

    def test_models_of_a_folder_without_models(self):
        self.refused(["models", self.directory.name], self.directory.name)
        self.refused(["models", self.path("none")], self.path("none"))


class Ports(OneLine):
    def test_a_port_in_use_is_named(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            self.refused(["serve", "--port", port], port, "in use")

    def test_an_address_that_others_can_reach_needs_a_key(self):
        self.refused(["serve", "--host", "0.0.0.0", "--port", "0"], "--api-key")

    def test_an_address_of_another_machine(self):
        self.refused(["serve", "--host", "192.0.2.1", "--port", "0", "--api-key", "k"], "192.0.2.1")


class Answers(unittest.TestCase):
    def test_version_models_config_and_tokenize_print_what_they_promise(self):
        self.assertRegex(run("version").stdout, r"^shoal \d+\.\d+\.\d+\n$")
        self.assertEqual((run("--version").returncode, run("--version").stdout), (0, run("version").stdout))
        self.assertRegex(run("models").stdout, r"guppy +6 layers, 16 experts")
        text = run("config", "--port", "8123", "--set", "kv.bytes=1048576", "--api-key", "secret").stdout
        self.assertTrue(re.search(r"http\.port\s.*8123.*--port", text), text)
        self.assertTrue(re.search(r"kv\.bytes\s.*1048576.*--set", text), text)
        self.assertTrue(re.search(r"http\.host\s.*127\.0\.0\.1.*default", text), text)
        self.assertEqual(json.loads(run("tokenize", "Hello there.").stdout), json.loads(run("tokenize", stdin="Hello there.").stdout))

    def test_generate_gives_the_golden_ids(self):
        golden = shoal_program.json_lines(os.path.join(GUPPY, "golden.jsonl"))[0]
        done = run("generate", "--ids", ",".join(map(str, golden["prompt_ids"])))
        self.assertEqual([int(line.split("\t")[0]) for line in done.stdout.splitlines()], golden["output_ids"])


class Up(unittest.TestCase):
    def test_its_help_is_printed_without_a_build(self):
        with tempfile.TemporaryDirectory() as directory:  # there is nothing to build here, and no tools/setup
            os.mkdir(os.path.join(directory, "tools"))
            script = shutil.copy(os.path.join(shoal_program.ROOT, "tools", "up"), os.path.join(directory, "tools"))
            for arguments in (["--help"], ["-h"], ["--port", "0", "--help"]):
                done = subprocess.run([script, *arguments], capture_output=True, text=True, timeout=shoal_program.DEADLINE_S)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertRegex(done.stdout, r"^Usage: tools/up ")
            self.assertNotEqual(subprocess.run([script], capture_output=True, timeout=shoal_program.DEADLINE_S).returncode, 0)


if __name__ == "__main__":
    shoal_program.main()
