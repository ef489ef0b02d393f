// Calls one tool with the official tasks requester and prints, as one line of
// JSON, what it saw: node exttasks.mjs URL TOOL ARGUMENTS [cancel|legacy]
// With legacy it opens a session, and the tasks are those of 2025-11-25.
//
// The requester leaves the wire to its host: rawDispatch sends one request and
// returns the response to it, from a JSON body or out of an event stream.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';

const [url, tool, args, how] = process.argv.slice(2);
const clientInfo = { name: 'ext-tasks', version: '0' };
const clientCapabilities = {
  elicitation: { form: {} },
  sampling: {},
  extensions: { 'io.modelcontextprotocol/tasks': {} },
};

let sent = 0;
async function rawDispatch(request, options = {}) {
  const id = `raw-${++sent}`;
  const name = request.params?.taskId ?? request.params?.name;
  const headers = new Headers({
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-protocol-version': '2026-07-28',
    'mcp-method': request.method,
  });
  if (name) headers.set('mcp-name', name);
  for (const [k, v] of Object.entries(options.context?.headers ?? {})) headers.set(k, v); // some are the same
  const response = await fetch(url, {
    method: 'POST',
    signal: options.signal,
    headers,
    body: JSON.stringify({ jsonrpc: '2.0', id, ...request }),
  });
  const message = responseTo(id, response.headers.get('content-type') ?? '', await response.text());
  return message.error ? { kind: 'error', error: message.error } : { kind: 'result', result: message.result };
}

function responseTo(id, contentType, body) {
  if (!contentType.startsWith('text/event-stream')) return JSON.parse(body);
  return body
    .split(/\r?\n\r?\n/)
    .map((event) => event.split(/\r?\n/).filter((l) => l.startsWith('data:')).map((l) => l.slice(5)).join('\n'))
    .filter((data) => data.trim() !== '')
    .map((data) => JSON.parse(data))
    .find((message) => message.id === id);
}

const questions = [];
function onInputRequest(request) {
  questions.push(request.kind);
  return request.kind === 'sampling'
    ? { role: 'assistant', model: 'none', content: { type: 'text', text: 'sampled by ext-tasks' } }
    : { action: 'accept', content: { name: 'Ann', check: true } };
}

const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode: how === 'legacy' ? 'legacy' : 'auto' } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const session = createTaskSessionFromClient(client, {
  endpointId: 'gateway',
  rawDispatch,
  v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo, clientCapabilities },
  onInputRequest: async (request) => onInputRequest(request),
});

const options = how === 'legacy' ? { task: { preference: 'require' } } : {};
const execution = await session.callTool(tool, JSON.parse(args), options);
if (how === 'cancel') await execution.cancel();
const { outcome } = await execution.settle();
console.log(JSON.stringify({
  era: client.getProtocolEra(),
  kind: execution.kind,
  taskId: execution.handle?.taskId,
  questions,
  status: outcome.status,
  result: outcome.result,
  error: outcome.error && String(outcome.error),
}));
process.exit(0);
