"""The client for asyncio, with the real program."""

import asyncio
import tempfile
import time
import unittest
from pathlib import Path

from .support import example, is_running

from toolcell import Approval, AsyncToolcell, Progress, ToolcellError

LONG = {"ticks": 1000, "interval_ms": 1000}


class Calls(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.heard: list = []
        tools = [example(name) for name in ("jq", "ticker", "everything")]
        self.cell = await self.enterAsyncContext(AsyncToolcell(*tools, config=False, on_log=self.heard.append))

    async def test_calls_run_side_by_side(self) -> None:
        calls = [self.cell.call("jq", {"filter": "length", "input": [0] * items}) for items in range(20)]
        self.assertEqual([result.text for result in await asyncio.gather(*calls)], [str(items) for items in range(20)])
        began = time.monotonic()
        await asyncio.gather(*(self.cell.call("ticker", {"ticks": 3, "interval_ms": 300}) for _ in range(2)))
        self.assertLess(time.monotonic() - began, 1.15)

    async def test_all_shapes_are_those_of_the_other_client(self) -> None:
        self.assertEqual((await self.cell.tools("openai"))[0]["function"]["name"], "jq")
        call = {"id": "a", "type": "function", "function": {"name": "jq", "arguments": '{"filter": "1"}'}}
        answer = {"role": "tool", "tool_call_id": "a", "content": "1"}
        self.assertEqual(await self.cell.call(call), answer)
        self.assertEqual(await self.cell.batch([call, call]), [answer, answer])
        self.assertEqual(await self.cell.run({"role": "assistant", "tool_calls": [call]}), [answer])
        results = await self.cell.batch([("jq", {"filter": "1"}), ("no_such_tool", {})])
        self.assertEqual((results[0].text, results[1].error_class), ("1", "unknown_tool"))
        with self.assertRaises(ToolcellError):
            await self.cell.call("test_error_handling")

    async def test_progress_and_logs_come_in_the_event_loop(self) -> None:
        said = []

        async def on_progress(update: Progress) -> None:
            await asyncio.sleep(0)
            said.append(update.message)

        await self.cell.call("ticker", {"ticks": 3, "interval_ms": 20}, on_progress=on_progress)
        self.assertEqual(said, [f"tick {at} of 3" for at in (1, 2, 3)])
        call = await self.cell.submit("ticker", {"ticks": 2}, progress=True)
        self.assertEqual([update.message async for update in call.progress()], ["tick 1 of 2", "tick 2 of 2"])
        self.assertEqual((await call).structured["ticks"], 2)
        await self.cell.call("test_logging_tool")
        await asyncio.sleep(0.1)
        self.assertTrue(self.heard)

    async def test_canceling_the_task_cancels_the_call(self) -> None:
        begun = asyncio.Event()
        task = asyncio.ensure_future(self.cell.call("ticker", LONG, on_progress=lambda _: begun.set()))
        await begun.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.cell.call("ticker", LONG), 0.2)
        call = await self.cell.submit("ticker", LONG)
        call.cancel()
        with self.assertRaises(ToolcellError) as caught:
            await call
        self.assertEqual(caught.exception.code, "canceled_by_client")
        with self.assertRaises(ToolcellError) as caught:
            await self.cell.call("ticker", LONG, timeout=0.2)
        self.assertEqual(caught.exception.error_class, "timeout")
        # Otherwise the program would wait for its calls at the end.
        began = time.monotonic()
        await self.cell.close()
        self.assertLess(time.monotonic() - began, 5)

    async def test_closing_ends_the_program(self) -> None:
        call = await self.cell.submit("ticker", LONG)
        pid = self.cell._session.connection.pid
        await self.cell.close()
        self.assertFalse(is_running(pid))
        for ended in (call, self.cell.tools()):
            with self.assertRaises(ToolcellError) as caught:
                await ended
            self.assertEqual(caught.exception.code, "client_closed")


class Questions(unittest.IsolatedAsyncioTestCase):
    async def test_a_coroutine_function_can_decide(self) -> None:
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        config = folder / "toolcell.toml"
        config.write_text('[[rule]]\nbehavior = "ask"\ntool = "jq.*"\n')
        loop = asyncio.get_running_loop()

        async def approve(question: Approval) -> bool:
            self.assertIs(asyncio.get_running_loop(), loop)
            await asyncio.sleep(0.05)
            return question.arguments["filter"] == "1"

        async with AsyncToolcell(example("jq"), config=config, approve=approve) as cell:
            self.assertEqual((await cell.call("jq", {"filter": "1"})).text, "1")
            with self.assertRaises(ToolcellError) as caught:
                await cell.call("jq", {"filter": "2"})
            self.assertEqual(caught.exception.error_class, "approval_rejected")
