// Calls one tool with the TypeScript client, which does not know tasks, and
// prints what it saw as one line of JSON: node tsclient.mjs URL TOOL ARGUMENTS
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';

const [url, tool, args] = process.argv.slice(2);
const client = new Client({ name: 'ts', version: '0' }, {
  capabilities: { elicitation: { form: {} } },
  versionNegotiation: { mode: 'auto' },
});
let questions = 0;
client.setRequestHandler('elicitation/create', async () => {
  questions++;
  return { action: 'accept', content: { name: 'Ann', check: true } };
});
await client.connect(new StreamableHTTPClientTransport(new URL(url)));

let progress = 0;
const tools = (await client.listTools()).tools.map((t) => t.name);
const result = await client.callTool(
  { name: tool, arguments: JSON.parse(args) },
  { onprogress: () => progress++ },
);
console.log(JSON.stringify({ era: client.getProtocolEra(), tools, questions, progress, result }));
process.exit(0);
