#!/usr/bin/env python3
"""What a session was told is still known, token for token, wherever the KV of the telling comes from."""
import os
import sys
import unittest

import shoal_program
from shoal_program import ROOT

sys.path.insert(0, os.path.join(ROOT, "tools"))
import kv_recall  # noqa: E402

BLOCK = kv_recall.BLOCK


class Recall(unittest.TestCase):
    def measure(self, replay, shortest, longest):
        asked = kv_recall.conversations(3, shortest, longest)
        answers = kv_recall.measure(shoal_program.SHOAL, asked, replay)
        kv_recall.report(asked, answers)
        return asked, answers

    def test_exact_answers_are_those_of_a_server_that_keeps_nothing(self):
        asked, answers = self.measure("exact", 420, 900)
        for case in kv_recall.CASES:
            with self.subTest(case):
                self.assertEqual([ids for ids, _, _ in answers[case]], [ids for ids, _, _ in answers["uncached"]])
                for conversation, (_, _, cached) in zip(asked, answers[case]):
                    # The blocks below the last full one, at least.
                    self.assertGreaterEqual(cached, (len(conversation.second) // BLOCK - 1) * BLOCK)

    def test_bounded_answers_know_the_facts_and_reuse_as_much(self):
        asked, answers = self.measure("bounded", 420, 700)
        for case in kv_recall.CASES:
            with self.subTest(case):
                for conversation, (_, text, cached) in zip(asked, answers[case]):
                    self.assertIn(conversation.code, text)
                    self.assertGreaterEqual(cached, (len(conversation.first) // BLOCK - 1) * BLOCK)

    def test_a_bounded_answer_behind_a_tail_is_the_same_twice(self):
        answers = [self.measure_same(420) for _ in range(2)]
        self.assertEqual(answers[0], answers[1])

    @staticmethod
    def measure_same(length):
        asked = kv_recall.conversations(1, length, length)
        return kv_recall.measure(shoal_program.SHOAL, asked, "bounded", cases=("same",))["same"]


if __name__ == "__main__":
    shoal_program.main()
