// Build step of bundle-programs.mjs: runs a command with parts that most commands share, and stores V8's compiled code
// next to each file.
const { join } = require('node:path');
const { loadCached } = require('../bin/load-cached.cjs');

const main = process.argv[2] ?? '';
const example = join(__dirname, '..', 'examples', 'hello.yaml');
// This folder does not exist: the build must not depend on the developer's state folder, whose format may differ.
process.env.VOIDBOX_STATE_DIR = join(__dirname, 'no-state');
process.argv.splice(2, process.argv.length, 'validate', example, '--json');
process.stdout.write = () => true;
const { saveCaches } = loadCached(main);
process.on('exit', saveCaches);
