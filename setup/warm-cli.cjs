// Build step of bundle-programs.mjs: runs a command whose parts most commands share, and keeps what V8 has compiled beside each file.
const { join } = require('node:path');
const { loadCached } = require('../bin/load-cached.cjs');

const main = process.argv[2] ?? '';
const example = join(__dirname, '..', 'examples', 'hello.yaml');
// Absent: the build does not depend on the state folder of the developer, whose format may be another one.
process.env.VOIDBOX_STATE_DIR = join(__dirname, 'no-state');
process.argv.splice(2, process.argv.length, 'validate', example, '--json');
process.stdout.write = () => true;
const { saveCaches } = loadCached(main);
process.on('exit', saveCaches);
