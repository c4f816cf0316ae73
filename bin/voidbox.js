#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { COMMAND_OPEN_FILES, tooFewOpenFiles } from '../setup/open-files.mjs';

const tooFew = tooFewOpenFiles('A command of voidbox', COMMAND_OPEN_FILES);
if (tooFew !== null) {
  const asJson = JSON.stringify({ error: { code: 'host/not-ready', ...tooFew } });
  process.stderr.write(
    process.argv.includes('--json') ? `${asJson}\n` : `error: ${tooFew.message}\n  ${tooFew.remedy}\n`,
  );
  process.exit(3);
}
const main = new URL('../dist/cli/main.js', import.meta.url);
// A package from npm is compiled; a fresh checkout is compiled on first use.
if (!existsSync(fileURLToPath(main))) await (await import('../setup/bootstrap.mjs')).prepareCheckout();
await import(main.href);
