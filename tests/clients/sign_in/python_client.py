"""The official Python client signs in: it finds the issuer from the refusal, registers, and gets a token with PKCE."""

import asyncio
import os
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

URL = os.environ["SIGN_IN_URL"]
CALLBACK = "http://127.0.0.1/callback"


class Session:
    """What the client keeps, and what its user's browser does."""

    def __init__(self) -> None:
        self.token: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None
        self.asked: dict[str, list[str]] = {}
        self.answer: dict[str, list[str]] = {}

    async def get_tokens(self) -> OAuthToken | None:
        return self.token

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.token = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info

    async def browse(self, url: str) -> None:
        self.asked = parse_qs(urlsplit(url).query)
        async with httpx2.AsyncClient() as browser:
            for _ in range(10):
                reply = await browser.get(url)
                assert reply.is_redirect, reply.text
                url = str(reply.url.join(reply.headers["location"]))
                if url.startswith(CALLBACK):
                    self.answer = parse_qs(urlsplit(url).query)
                    return
        raise AssertionError("the sign-in does not end")

    async def callback(self) -> AuthorizationCodeResult:
        said = {name: values[0] for name, values in self.answer.items()}
        return AuthorizationCodeResult(code=said["code"], state=said.get("state"), iss=said.get("iss"))


async def main() -> None:
    session = Session()
    metadata = OAuthClientMetadata(
        client_name="toolcell test",
        redirect_uris=[CALLBACK],
        token_endpoint_auth_method="none",
        application_type="native",
    )
    auth = OAuthClientProvider(URL, metadata, session, session.browse, session.callback)
    async with httpx2.AsyncClient(auth=auth, timeout=60) as http:
        async with Client(streamable_http_client(URL, http_client=http)) as client:
            said = await client.call_tool("everything_test_simple_text", {})
            assert said.content[0].text == "This is a simple text response for testing.", said
    assert session.asked["resource"] == [URL], session.asked
    assert "tools" in session.asked["scope"][0].split(), session.asked
    assert session.token and session.token.access_token.count(".") == 2
    print("python client with a sign-in: ok")


asyncio.run(main())
