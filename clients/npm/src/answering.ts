import { isObject, type Json, text, ToolcellError } from "./errors.js";

/**
 * In this revision, the question about a call is the answer to its request, so that it is known which call it is about. A
 * request can name a revision of its own.
 */
const META: Json = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {} } },
  "io.modelcontextprotocol/logLevel": "debug",
};
const NO: Json = { action: "decline" };

/** Makes a call, and answers what it asks with `respond`: an approval, and the forms of its tool. */
export async function answering(
  send: (params: Json) => Promise<unknown>,
  params: Json,
  respond: (question: Json) => Promise<Json>,
  signal: AbortSignal,
): Promise<unknown> {
  const call = { ...params, _meta: META };
  let answer = await send(call);
  for (let open = openIn(answer); open !== undefined; open = openIn(answer)) {
    const requestState = open.state;
    const responses = await Promise.race([responsesTo(open.questions, respond), aborted(signal)]);
    if (responses === undefined) {
      // The program would keep the call until the question expires.
      const inputResponses = Object.fromEntries(Object.keys(open.questions).map((key) => [key, NO]));
      send({ ...call, requestState, inputResponses }).catch(() => {});
      throw canceled(signal);
    }
    answer = await send({ ...call, requestState, inputResponses: responses });
  }
  return answer;
}

export function canceled(signal: AbortSignal): ToolcellError {
  return new ToolcellError("canceled", "canceled_by_client", "the client canceled the call", { cause: signal.reason });
}

/** The questions in an answer that is not the result yet. */
function openIn(answer: unknown): { state: string; questions: Json } | undefined {
  if (!isObject(answer) || !isObject(answer["inputRequests"])) return undefined;
  const state = text(answer["requestState"]);
  if (state === undefined) {
    throw new ToolcellError("execution_failed", "answer_unreadable", "toolcell asked a question without the state of its call");
  }
  return { state, questions: answer["inputRequests"] };
}

async function responsesTo(questions: Json, respond: (question: Json) => Promise<Json>): Promise<Json> {
  const responses: Json = {};
  for (const [key, request] of Object.entries(questions)) {
    const params = isObject(request) && isObject(request["params"]) ? request["params"] : {};
    // A function of the caller that fails has not said yes.
    responses[key] = await respond(params).then(sendable).catch(() => NO);
  }
  return responses;
}

/** Throws for what JSON cannot hold. */
function sendable(response: Json): Json {
  JSON.stringify(response);
  return response;
}

/** Completes, without a value, once the call is canceled. */
function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    else signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}
