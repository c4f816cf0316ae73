// Build step of bundle-programs.mjs: runs a command with parts that most commands share, and stores V8's compiled code
// next to each file. `validate` is such a command without a server, `runs` one that asks a server.
const { createServer } = require('node:http2');
const { join } = require('node:path');
const { loadCached } = require('../bin/load-cached.cjs');

const [, , main = '', command = ''] = process.argv;
const ARGUMENTS = { validate: [join(__dirname, '..', 'examples', 'hello.yaml'), '--json'], runs: [] };
const UNIMPLEMENTED = 12;

// This folder does not exist: the build must not depend on the developer's state folder, whose format may differ.
process.env.VOIDBOX_STATE_DIR = join(__dirname, 'no-state');
process.argv.splice(2, process.argv.length, command, ...ARGUMENTS[command]);
process.stdout.write = process.stderr.write = () => true;

// A server that knows no method: the command connects, asks and reads the answer.
const server = createServer();
server.on('stream', (stream) => {
  const headers = { 'content-type': 'application/grpc', 'grpc-status': UNIMPLEMENTED };
  stream.respond({ ':status': 200, ...headers }, { endStream: true });
});
server.on('session', (session) => session.unref());
server.listen(0, '127.0.0.1', () => {
  server.unref();
  process.env.TEMPORAL_ADDRESS = `127.0.0.1:${server.address().port}`;
  const { saveCaches } = loadCached(main);
  process.on('exit', saveCaches);
});
