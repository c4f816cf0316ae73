#!/usr/bin/env node
import { existsSync } from 'node:fs';
import { fileURLToPath } from 'node:url';

const main = new URL('../dist/cli/main.js', import.meta.url);
// A package from npm is compiled; a fresh checkout is compiled on first use.
if (!existsSync(fileURLToPath(main))) await (await import('../setup/bootstrap.mjs')).prepareCheckout();
await import(main.href);
