// Calls one tool with the official tasks requester and prints, as one line of
// JSON, what it saw: node exttasks.mjs URL TOOL ARGUMENTS [cancel|legacy]
// With legacy it opens a session, and the tasks are those of 2025-11-25.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { dispatcher } from './dispatch.mjs';

const [url, tool, args, how] = process.argv.slice(2);
const clientInfo = { name: 'ext-tasks', version: '0' };
const clientCapabilities = {
  elicitation: { form: {} },
  sampling: {},
  extensions: { 'io.modelcontextprotocol/tasks': {} },
};

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
  rawDispatch: dispatcher(url),
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
