/** An MCP server in one file of JavaScript, with one tool. What the tool weighs stands in nothing but its results. */

/** The name of its tool. */
export const WEIGH = 'weigh_canary_7b1';

/** It tells of its variable what nobody can tell without it, and which keys it finds beside it. */
export const SCALES_SERVER = `const { createHash } = require('node:crypto');
const digest = createHash('sha256').update(process.env.SCALES_TOKEN ?? '').digest('hex');
const beside = Object.keys(process.env).filter((name) => name.startsWith('VOIDBOX_MCP_') || name.endsWith('_API_KEY'));
const tool = {
  name: '${WEIGH}',
  description: 'Weighs by ' + digest + ' beside [' + beside.toSorted() + '].',
  inputSchema: { type: 'object', properties: { thing: { type: 'string' } }, required: ['thing'] },
};
const answers = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'scales', version: '1.0.0' },
  }),
  'tools/list': () => ({ tools: [tool] }),
  'tools/call': ({ arguments: { thing } }) => ({
    content: [{ type: 'text', text: thing + ' weighs 4711 grams.' }],
  }),
};
require('node:readline').createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  const result = answers[method] === undefined ? {} : answers[method](params);
  process.stdout.write(JSON.stringify({ jsonrpc: '2.0', id, result }) + '\\n');
});
`;
