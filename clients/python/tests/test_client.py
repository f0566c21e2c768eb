"""The client for threads, with the real program."""

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from pathlib import Path
from unittest import mock

from .support import SOURCE, example, is_running

from toolcell import Approval, Call, Decision, Options, Progress, Question, Result, Toolcell, ToolcellError


def openai(call_id: str, name: str, arguments: str) -> dict:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


def jq(call_id: str, items: str = "[1, 2, 3]") -> dict:
    return openai(call_id, "jq", f'{{"filter": "length", "input": {items}}}')


class Calls(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.heard: list = []
        tools = [example(name) for name in ("jq", "ticker", "everything")]
        cls.cell = cls.enterClassContext(Toolcell(*tools, config=False, on_log=cls.heard.append))

    def fails(self, error_class: str, code: str, call, *arguments, **settings) -> ToolcellError:
        with self.assertRaises(ToolcellError) as caught:
            call(*arguments, **settings)
        self.assertEqual((caught.exception.error_class, caught.exception.code), (error_class, code), caught.exception)
        return caught.exception

    def test_a_tool_is_called_by_its_name(self) -> None:
        result = self.cell.call("jq", {"filter": "length", "input": [1, 2, 3]})
        self.assertIsInstance(result, Result)
        self.assertEqual((result.text, result.structured["outputs"], result.value["outputs"]), ("3", [3], [3]))
        self.assertTrue(result.invocation_id and result.meta["usage"]["fuel"] > 0)
        self.assertEqual(result.meta["provenance"]["trust"], "untrusted")
        image = self.cell.call("test_image_content").content[0]
        self.assertEqual((image["type"], image["mimeType"]), ("image", "image/png"))

    def test_a_failure_has_class_code_and_message(self) -> None:
        error = self.fails("execution_failed", "intentional", self.cell.call, "test_error_handling")
        self.assertIn("intentionally", error.message)
        self.assertTrue(error.hint and error.invocation_id and "[execution_failed/intentional]" in str(error))
        error = self.fails("unknown_tool", "unknown_tool", self.cell.call, "no_such_tool")
        self.assertIn("no tool named `no_such_tool`; available: jq", error.message)
        self.assertTrue(error.invocation_id)
        self.fails("schema_validation_failed", "schema_mismatch", self.cell.call, "ticker", {"ticks": 0})

    def test_what_json_cannot_hold_is_not_sent(self) -> None:
        for arguments in ({"input": float("nan")}, {"input": object()}, {"input": "\ud800"}):
            self.fails("invalid_arguments", "arguments_not_json", self.cell.call, "jq", arguments)
        self.fails("invalid_arguments", "arguments_not_an_object", self.cell.call, "jq", ["length"])
        self.fails("invalid_arguments", "request_too_large", self.cell.call, "jq", {"input": "x" * (16 << 20)})
        self.fails("invalid_arguments", "arguments_twice", self.cell.call, jq("one"), {"input": 1})

    def test_large_numbers_arrive_as_they_are(self) -> None:
        self.assertEqual(self.cell.call("jq", {"filter": ".", "input": 2**63 + 1}).text, str(2**63 + 1))

    def test_the_tools_have_the_formats_of_models(self) -> None:
        plain = {tool["name"]: tool for tool in self.cell.tools()}
        self.assertEqual(plain["jq"]["inputSchema"]["required"], ["filter"])
        openai_tool = self.cell.tools("openai")[0]
        self.assertEqual((openai_tool["type"], openai_tool["function"]["name"]), ("function", "jq"))
        self.assertEqual(openai_tool["function"]["parameters"]["required"], ["filter"])
        self.assertEqual(self.cell.tools("openai-responses")[0]["name"], "jq")
        self.assertEqual(self.cell.tools("anthropic")[0]["input_schema"]["required"], ["filter"])
        self.fails("invalid_arguments", "dialect_unknown", self.cell.tools, "latin")

    def test_a_call_of_a_model_gets_what_answers_it(self) -> None:
        self.assertEqual(self.cell.call(jq("call_1")), {"role": "tool", "tool_call_id": "call_1", "content": "3"})
        answer = self.cell.call(
            {"type": "function_call", "call_id": "fc_1", "name": "jq", "arguments": '{"filter": ".", "input": 7}'}
        )
        self.assertEqual(answer, {"type": "function_call_output", "call_id": "fc_1", "output": "7"})
        block = {"type": "tool_use", "id": "toolu_1", "name": "jq", "input": {"filter": ".", "input": 7}}
        expected = {"type": "tool_result", "tool_use_id": "toolu_1", "is_error": False}
        self.assertEqual(self.cell.call(block), {**expected, "content": [{"type": "text", "text": "7"}]})

    def test_what_a_model_does_wrong_is_for_the_model_to_read(self) -> None:
        for name, arguments, says in [
            ("jq", '{"filter": "len', "ERROR [invalid_arguments/arguments_not_json]: "),
            ("no_such_tool", "{}", "ERROR [unknown_tool/unknown_tool]: "),
            ("ticker", '{"ticks": 0}', "ERROR [schema_validation_failed/"),
            ("test_error_handling", "", "ERROR [execution_failed/intentional]: "),
        ]:
            answer = self.cell.call(openai("one", name, arguments))
            self.assertTrue(answer["content"].startswith(says), answer)
        block = {"type": "tool_use", "id": "one", "name": "no_such_tool", "input": {}}
        self.assertTrue(self.cell.call(block)["is_error"])
        self.fails("invalid_arguments", "message_unreadable", self.cell.call, {"name": "jq"})
        circle: list = []
        circle.append(circle)
        self.fails("invalid_arguments", "message_unreadable", self.cell.run, circle)

    def test_a_message_is_answered_as_a_whole(self) -> None:
        message = {"role": "assistant", "content": None, "tool_calls": [jq("a"), openai("b", "test_image_content", "{}")]}
        for whole in (message, {"object": "chat.completion", "choices": [{"index": 0, "message": message}]}):
            one, two, images = self.cell.run(whole)
            self.assertEqual((one["tool_call_id"], two["tool_call_id"], images["role"]), ("a", "b", "user"))
            self.assertTrue(images["content"][1]["image_url"]["url"].startswith("data:image/png;base64,"))
        use = {"type": "tool_use", "id": "t", "name": "jq", "input": {"filter": "length", "input": []}}
        content = [{"type": "text", "text": "I count."}, use]
        for whole in (content, {"type": "message", "role": "assistant", "content": content}):
            [answer] = self.cell.run(whole)
            self.assertEqual((answer["role"], answer["content"][0]["tool_use_id"]), ("user", "t"))
        output = [{"type": "function_call", "call_id": "f", "name": "jq", "arguments": '{"filter": "1"}'}]
        [item] = self.cell.run({"object": "response", "output": output})
        self.assertEqual((item["call_id"], item["output"]), ("f", "1"))
        for nothing in ({"role": "assistant", "content": "hello"}, [{"type": "text", "text": "hello"}], []):
            self.assertEqual(self.cell.run(nothing), [])
        self.fails("invalid_arguments", "message_unreadable", self.cell.run, {"hello": 1})

    def test_a_batch_has_its_results_in_order(self) -> None:
        results = self.cell.batch(
            [("ticker", {"ticks": 3, "interval_ms": 50}), ("no_such_tool", {}), {"name": "jq", "arguments": {"filter": "1"}}]
        )
        self.assertEqual((results[0].structured["ticks"], results[2].structured["outputs"]), (3, [1]))
        self.assertEqual((type(results[1]), results[1].error_class), (ToolcellError, "unknown_tool"))
        answers = self.cell.batch([jq("a", "[]"), jq("b", "[1]")])
        self.assertEqual([(one["tool_call_id"], one["content"]) for one in answers], [("a", "0"), ("b", "1")])
        self.assertEqual(self.cell.batch([]), [])
        self.fails("invalid_arguments", "batch_invalid", self.cell.batch, [("jq", {}), jq("a")])
        error = self.fails("invalid_arguments", "request_refused", self.cell.batch, [("jq", {"filter": "1"})] * 129)
        self.assertIn("send at most 128 at once", error.message)

    def test_progress_comes_before_the_result_and_in_the_callers_thread(self) -> None:
        said, threads = [], set()

        def on_progress(update: Progress) -> None:
            said.append(update)
            threads.add(threading.current_thread())

        self.cell.call("ticker", {"ticks": 3, "interval_ms": 20}, on_progress=on_progress)
        self.assertEqual(threads, {threading.current_thread()})
        self.assertEqual([update.message for update in said], [f"tick {at} of 3" for at in (1, 2, 3)])
        self.assertEqual((said[-1].progress, said[-1].total), (100.0, 100.0))
        said.clear()
        self.cell.batch([("ticker", {"ticks": 2})] * 2, on_progress=on_progress)
        self.assertEqual({update.index for update in said}, {0, 1})

    def test_a_call_that_is_canceled_ends_at_once(self) -> None:
        call = self.cell.submit("ticker", {"ticks": 1000, "interval_ms": 1000}, progress=True)
        self.assertEqual(next(call.progress()).message, "tick 1 of 1000")
        self.assertFalse(call.done())
        began = time.monotonic()
        call.cancel()
        self.fails("canceled", "canceled_by_client", call.result)
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.cell.call("jq", {"filter": "1"}).text, "1")

    def test_an_error_of_the_callers_function_cancels_the_call(self) -> None:
        def on_progress(update: Progress) -> None:
            raise KeyError(update.message)

        with self.assertRaises(KeyError):
            self.cell.call("ticker", {"ticks": 1000, "interval_ms": 1000}, on_progress=on_progress)

    def test_ctrl_c_cancels_the_call_and_spares_the_program(self) -> None:
        # Whoever starts the tests in the background ignores the signal.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
        with self.assertRaises(KeyboardInterrupt):
            self.cell.call("ticker", {"ticks": 1000, "interval_ms": 1000})
        self.assertEqual(self.cell.call("jq", {"filter": "1"}).text, "1")

    def test_a_timeout_ends_the_call(self) -> None:
        error = self.fails("timeout", "deadline_exceeded", self.cell.call, "ticker", {"ticks": 1000, "interval_ms": 1000}, timeout=0.3)
        self.assertTrue(error.invocation_id)
        for wrong in (0, -1, float("nan"), "1s"):
            self.fails("invalid_arguments", "option_invalid", self.cell.call, "jq", timeout=wrong)

    def test_the_time_of_a_call_is_not_that_of_its_batch(self) -> None:
        with mock.patch("toolcell._session.GRACE_S", 0.0):
            ticks = ("ticker", {"ticks": 4, "interval_ms": 200})
            results = self.cell.batch([ticks] * 40, timeout=2)
        self.assertEqual({result.text for result in results}, {"4 of 4 ticks"})

    def test_many_threads_share_one_client(self) -> None:
        found = {}

        def count(items: int) -> None:
            found[items] = self.cell.call("jq", {"filter": "length", "input": [0] * items}).text

        threads = [threading.Thread(target=count, args=(items,)) for items in range(20)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        self.assertEqual(found, {items: str(items) for items in range(20)})

    def test_logs_of_a_tool_are_heard(self) -> None:
        self.heard.clear()
        self.cell.call("test_logging_tool")
        self.assertTrue(self.heard and self.heard[0].level == "info", self.heard)


class Questions(unittest.TestCase):
    def ask(self, **settings) -> tuple:
        """A call that a rule asks about: what it gave, and the questions."""
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = folder / "toolcell.toml"
        config.write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
        with Toolcell(example("jq"), config=config, **settings) as cell:
            try:
                return cell.call("jq", {"filter": "length", "input": [1]}).text
            except ToolcellError as error:
                return error.error_class, error.code

    def test_without_an_answer_the_call_does_not_run(self) -> None:
        self.assertEqual(self.ask(), ("approval_rejected", "approval_rejected"))

    def test_the_callers_function_decides(self) -> None:
        asked = []

        def approve(question: Approval) -> bool:
            asked.append(question)
            return True

        self.assertEqual(self.ask(approve=approve), "1")
        [question] = asked
        self.assertIn("Run this call?", question.message)
        self.assertEqual(question.arguments, {"filter": "length", "input": [1]})
        self.assertTrue(question.invocation_id and question.expires_at and not question.is_cut)
        self.assertEqual(self.ask(approve=lambda _: False), ("approval_rejected", "approval_rejected"))
        self.assertEqual(self.ask(approve=lambda _: "yes"), ("approval_rejected", "approval_rejected"))
        self.assertEqual(self.ask(approve=lambda question: question.nothing), ("approval_rejected", "approval_rejected"))
        edit = Decision(True, arguments={"filter": "length", "input": [1, 2]}, note="two")
        self.assertTrue(self.ask(approve=lambda _: edit).startswith("2\n"), "the note is for the caller")

    def test_the_time_of_a_call_begins_after_its_approval(self) -> None:
        config = Path(self.enterContext(tempfile.TemporaryDirectory())) / "toolcell.toml"
        config.write_text('[[rule]]\nbehavior = "ask"\ntool = "ticker.*"\n')

        def approve(question: Approval) -> bool:
            # Between the first timeout and the second one, which the call outlives.
            time.sleep(5)
            return True

        with Toolcell(example("ticker"), config=config, approve=approve) as cell, mock.patch("toolcell._session.GRACE_S", 0.0):
            result = cell.call("ticker", {"ticks": 5, "interval_ms": 500}, timeout=3)
            self.assertEqual(result.text, "5 of 5 ticks")

    def test_wait_leaves_the_answer_to_others(self) -> None:
        self.assertEqual(self.ask(approve="wait", approval_timeout=0.5), ("approval_rejected", "approval_expired"))
        with self.assertRaises(ToolcellError):
            Toolcell(approve="maybe")

    def test_a_form_of_a_tool_is_no_approval(self) -> None:
        asked = []

        def fill(question: Question) -> dict:
            asked.append(question)
            return {"name": "Ada"}

        def approve(question: Approval) -> bool:
            raise AssertionError("a tool cannot ask for an approval")

        tool = "test_input_required_result_elicitation"
        with Toolcell(example("everything"), config=False, fill=fill, approve=approve) as cell:
            self.assertIn("Ada", cell.call(tool).text)
        self.assertTrue(asked[0].schema["properties"]["name"] and "asks (its own words)" in asked[0].message)
        with Toolcell(example("everything"), config=False) as cell:
            with self.assertRaises(ToolcellError) as caught:
                cell.call(tool)
            self.assertEqual((caught.exception.error_class, caught.exception.code), ("canceled", "not_answered"))


class Programs(unittest.TestCase):
    def test_a_program_that_does_not_start_says_why(self) -> None:
        for settings, code in [
            ({"program": "/no/such/toolcell"}, "program_not_found"),
            ({"program": __file__}, "program_not_found"),
            ({"folder": "/no/such/folder"}, "program_not_started"),
            ({"program": "/bin/cat", "start_timeout": 1.0}, "program_ended"),
            ({"memory": "many"}, "program_ended"),
            ({"allow_read": ["a,b"]}, "option_invalid"),
            ({"allow_read": "src"}, "option_invalid"),
        ]:
            with self.subTest(settings), self.assertRaises(ToolcellError) as caught, Toolcell(**settings):
                pass
            self.assertEqual(caught.exception.code, code, caught.exception)
        self.assertRaises(TypeError, Toolcell, memroy="1MiB")
        options = Options(deny_read=(folder for folder in ["a"]), config=False)
        for _ in range(2):
            self.assertIn("--deny-read=a", options.command("toolcell", []))
        with self.assertRaises(ToolcellError) as caught, Toolcell("no/such/tool.wasm", config=False) as cell:
            cell.tools()
        self.assertIn("no/such/tool.wasm", str(caught.exception))

    def test_grants_and_limits_are_those_of_the_program(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "note").write_text("what is in it")
        read = {"path": str(folder / "note")}
        with Toolcell(example("files"), config=False) as cell, self.assertRaises(ToolcellError) as caught:
            cell.call("files_read", read)
        self.assertEqual(caught.exception.error_class, "permission_denied")
        with Toolcell(example("files"), config=False, allow_read=[folder]) as cell:
            self.assertIn("what is in it", cell.call("files_read", read).text)
        with Toolcell(example("ticker"), config=False, timeout=0.2) as cell, self.assertRaises(ToolcellError) as caught:
            cell.call("ticker", {"ticks": 1000, "interval_ms": 1000})
        self.assertEqual(caught.exception.error_class, "timeout")

    def test_closing_ends_the_program_and_the_calls_that_run(self) -> None:
        cell = Toolcell(example("ticker"), config=False)
        call = cell.submit("ticker", {"ticks": 1000, "interval_ms": 1000}, progress=True)
        next(call.progress())
        pid = cell._session.connection.pid
        began = time.monotonic()
        cell.close()
        self.assertLess(time.monotonic() - began, 5)
        self.assertFalse(is_running(pid))
        for ended in (call.result, lambda: cell.call("ticker", {"ticks": 1})):
            with self.assertRaises(ToolcellError) as caught:
                ended()
            self.assertEqual(caught.exception.code, "client_closed")
        cell.close()

    def test_a_fork_does_not_stop_the_program(self) -> None:
        script = (
            "import os, sys, toolcell\n"
            "cell = toolcell.Toolcell(sys.argv[1], config=False)\n"
            "cell.tools()\n"
            "child = os.fork()\n"
            "if not child:\n"
            "    try: cell.tools()\n"
            "    except toolcell.ToolcellError as error: print(error.code, flush=True)\n"
            "else:\n"
            "    os.waitpid(child, 0)\n"
            "    print(cell.call('jq', {'filter': '1'}).text)\n"
        )
        environment = {**os.environ, "PYTHONPATH": str(SOURCE)}
        command = [sys.executable, "-c", script, example("jq")]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((ran.stdout, ran.stderr), ("client_forked\n1\n", ""))

    def test_an_answer_from_elsewhere_takes_the_question_back(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = folder / "toolcell.toml"
        config.write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
        answered = threading.Event()

        def approve(question: Approval) -> bool:
            command = [os.environ["TOOLCELL"], "approvals", "approve", str(question.invocation_id)]
            subprocess.run(command, check=True, capture_output=True, env={**os.environ, "TOOLCELL_ACTOR": "operator"})
            answered.wait(30)
            return False

        with Toolcell(example("jq"), config=config, approve=approve) as cell:
            self.assertEqual(cell.call("jq", {"filter": "1"}).text, "1")
            answered.set()
            self.assertEqual(cell.tools()[0]["name"], "jq")

    def test_a_program_that_is_killed_ends_its_calls(self) -> None:
        with Toolcell(example("ticker"), config=False) as cell:
            call = cell.submit("ticker", {"ticks": 1000, "interval_ms": 1000}, progress=True)
            next(call.progress())
            os.kill(cell._session.connection.pid, signal.SIGKILL)
            for ended in (call.result, cell.tools):
                with self.assertRaises(ToolcellError) as caught:
                    ended()
                self.assertEqual(caught.exception.code, "program_ended")

    def test_closing_does_not_wait_for_a_start(self) -> None:
        silent = Path(self.enterContext(tempfile.TemporaryDirectory())) / "toolcell"
        silent.write_text("#!/bin/sh\nexec sleep 60\n")
        silent.chmod(0o755)
        cell, codes = Toolcell(program=silent), []

        def start() -> None:
            try:
                cell.tools()
            except ToolcellError as error:
                codes.append(error.code)

        starting = threading.Thread(target=start)
        starting.start()
        while cell._session._starting is None:
            time.sleep(0.01)
        began = time.monotonic()
        cell.close()
        starting.join()
        self.assertLess(time.monotonic() - began, 15)
        self.assertEqual(codes, ["client_closed"])

    def test_a_program_that_hangs_while_a_call_waits_for_an_approval_is_noticed(self) -> None:
        config = Path(self.enterContext(tempfile.TemporaryDirectory())) / "toolcell.toml"
        config.write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
        errors = []

        def wait(call: Call) -> None:
            try:
                call.result()
            except ToolcellError as error:
                errors.append((error.error_class, error.code))

        with Toolcell(example("jq"), config=config, approve="wait") as cell, mock.patch("toolcell._session.GRACE_S", 0.0):
            cell.tools()
            waiting = threading.Thread(target=wait, args=[cell.submit("jq", {"filter": "1"}, timeout=1)])
            waiting.start()
            # Longer than the timeout, because the program answers.
            waiting.join(3.5)
            self.assertTrue(waiting.is_alive(), errors)
            pid = cell._session.connection.pid
            os.kill(pid, signal.SIGSTOP)
            try:
                waiting.join(20)
            finally:
                os.kill(pid, signal.SIGCONT)
            self.assertEqual(errors, [("timeout", "no_answer")])

    def test_calls_that_end_together_have_errors_of_their_own(self) -> None:
        with Toolcell(example("ticker"), config=False) as cell:
            calls = [cell.submit("ticker", {"ticks": 1000, "interval_ms": 1000}, progress=True) for _ in range(2)]
            next(calls[0].progress())
            os.kill(cell._session.connection.pid, signal.SIGKILL)
            errors = []
            for call in [*calls, calls[0]]:
                with self.assertRaises(ToolcellError) as caught:
                    call.result()
                errors.append(caught.exception)
            self.assertEqual(len(set(map(id, errors))), 3)
            self.assertEqual(len(set(map(str, errors))), 1)

    def test_a_program_that_ignores_everything_is_killed(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        stubborn = folder / "toolcell"
        stubborn.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ >{folder}/pid\nwhile :; do sleep 1; done\n")
        stubborn.chmod(0o755)
        with self.assertRaises(ToolcellError) as caught, Toolcell(program=stubborn, start_timeout=0.3):
            pass
        self.assertEqual(caught.exception.code, "start_timeout")
        self.assertFalse(is_running(int((folder / "pid").read_text())))

    def test_the_program_ends_with_its_client(self) -> None:
        script = (
            "import os, sys, toolcell\n"
            "cell = toolcell.Toolcell(sys.argv[1], config=False)\n"
            "call = cell.submit('ticker', {'ticks': 1000, 'interval_ms': 1000}, progress=True)\n"
            "next(call.progress())\n"
            "print(cell._session.connection.pid, flush=True)\n"
        )
        for end in ("", "raise SystemExit(0)", "os._exit(1)", "os.kill(os.getpid(), 9)"):
            ran = subprocess.run(
                [sys.executable, "-c", script + end, example("ticker")],
                env={**os.environ, "PYTHONPATH": str(SOURCE)},
                stdout=subprocess.PIPE,
                timeout=60,
            )
            pid = int(ran.stdout)
            until = time.monotonic() + 20
            while is_running(pid) and time.monotonic() < until:
                time.sleep(0.05)
            self.assertFalse(is_running(pid), end)


if __name__ == "__main__":
    unittest.main()
