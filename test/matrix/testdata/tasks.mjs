// The official tasks requester, in either of its generations: node tasks.mjs legacy|modern URL PLAN
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { createTaskSessionFromClient } from '@modelcontextprotocol/ext-tasks/client';
import { dispatcher } from './dispatch.mjs';
import { take } from './steps.mjs';

const [era, url, text] = process.argv.slice(2);
const plan = JSON.parse(text);
const clientInfo = { name: 'ext-tasks', version: '0' };
const clientCapabilities = { elicitation: { form: {} }, extensions: { 'io.modelcontextprotocol/tasks': {} } };
const mode = era === 'legacy' ? 'legacy' : { pin: '2026-07-28' };
const client = new Client(clientInfo, { capabilities: clientCapabilities, versionNegotiation: { mode } });
const options = era === 'legacy' ? { task: { preference: 'require' } } : {};
let session;

async function settled(execution, want) {
  const { outcome } = await execution.settle();
  if (outcome.status !== want) throw new Error(`${execution.kind} is ${outcome.status}: ${outcome.error}`);
  return outcome.result;
}

const taker = {
  questions: 0,
  close: () => client.close(),
  async connect() {
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    session = createTaskSessionFromClient(client, {
      endpointId: 'gateway',
      rawDispatch: dispatcher(url),
      v2RequestFraming: { protocolVersion: '2026-07-28', clientInfo, clientCapabilities },
      onInputRequest: async () => {
        taker.questions++;
        return { action: 'accept', content: plan.question.answer };
      },
    });
  },
  list: async () => (await client.listTools()).tools.map((t) => t.name),
  call: async (tool, args) => settled(await session.callTool(tool, args, options), 'completed'),
  async cancel(tool, args) {
    const execution = await session.callTool(tool, args, options);
    await execution.cancel();
    await settled(execution, 'cancelled');
  },
};
if (era === 'legacy') delete plan.question; // it would wait for ever, since it never asks for tasks/result
await take(plan, taker);
