/** An MCP server in one file of JavaScript, with one tool. Only the results of the tool contain the weight. */

/** The name of its tool. */
export const WEIGH = 'weigh_canary_7b1';

/**
 * Its description contains a digest of its variable, which proves that it got the value, and the names of the keys that
 * it finds.
 */
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
