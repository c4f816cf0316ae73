#!/usr/bin/env node
// CommonJS (package.json in this folder): without Node's loader of ES modules a light command takes a tenth less time.
const { existsSync } = require('node:fs');
const { join } = require('node:path');
const { COMMAND_OPEN_FILES, tooFewOpenFiles } = require('../setup/open-files.cjs');
const { loadCached } = require('./load-cached.cjs');

const tooFew = tooFewOpenFiles('A command of voidbox', COMMAND_OPEN_FILES);
if (tooFew !== null) {
  const asJson = JSON.stringify({ error: { code: 'host/not-ready', ...tooFew } });
  process.stderr.write(
    process.argv.includes('--json') ? `${asJson}\n` : `error: ${tooFew.message}\n  ${tooFew.remedy}\n`,
  );
  process.exit(3);
}
const main = join(__dirname, '..', 'dist', 'cli-bundle', 'main.cjs');
if (existsSync(main)) loadCached(main);
// A package from npm is compiled; a fresh checkout is compiled on first use.
else void prepareCheckout().then(() => loadCached(main));

async function prepareCheckout() {
  const bootstrap = await import('../setup/bootstrap.mjs');
  await bootstrap.prepareCheckout();
}
