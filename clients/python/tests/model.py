"""A server that answers as the APIs of OpenAI and Anthropic do, for a model that calls jq once."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ARGUMENTS = {"filter": "add", "input": [3, 4]}


def chat(request: dict) -> dict:
    tools = {tool["function"]["name"] for tool in request["tools"]}
    assert tools == {"jq"}, tools
    last = request["messages"][-1]
    if last["role"] == "tool":
        message, reason = {"role": "assistant", "content": f"The sum is {last['content']}."}, "stop"
    else:
        function = {"name": "jq", "arguments": json.dumps(ARGUMENTS)}
        call = {"id": "call_1", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": request["model"], "choices": [choice]}


def messages(request: dict) -> dict:
    assert [tool["name"] for tool in request["tools"]] == ["jq"], request["tools"]
    last = request["messages"][-1]["content"]
    if isinstance(last, list) and last[0]["type"] == "tool_result":
        content: Any = [{"type": "text", "text": f"The sum is {last[0]['content'][0]['text']}."}]
        reason = "end_turn"
    else:
        content, reason = [{"type": "tool_use", "id": "toolu_1", "name": "jq", "input": ARGUMENTS}], "tool_use"
    answer = {"id": "m", "type": "message", "role": "assistant", "model": request["model"], "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1}
    return {**answer, "stop_reason": reason, "stop_sequence": None, "usage": usage}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = json.dumps((chat if self.path.endswith("/chat/completions") else messages)(request)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *arguments: Any) -> None:
        pass


class Model:
    """The server; `variables` lead the official packages to it."""

    def __enter__(self) -> "Model":
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        base = f"http://127.0.0.1:{self._server.server_port}"
        self.variables = {"OPENAI_BASE_URL": f"{base}/v1", "OPENAI_API_KEY": "none"}
        self.variables |= {"ANTHROPIC_BASE_URL": base, "ANTHROPIC_API_KEY": "none", "NO_PROXY": "127.0.0.1"}
        return self

    def __exit__(self, *_: Any) -> None:
        self._server.shutdown()
        self._server.server_close()


if __name__ == "__main__":
    # For other languages: prints the variables, and serves until the input ends.
    import sys

    with Model() as model:
        print(json.dumps(model.variables), flush=True)
        sys.stdin.read()
