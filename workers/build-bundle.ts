/** Build step: `node dist/workers/build-bundle.js` writes dist/workflow-bundle.js. */
import { renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { findPackageRoot } from '../setup/package-root.ts';
import { BUNDLE_FILE, bundleWorkflows } from './bundle.ts';

const root = findPackageRoot();
const file = join(root, BUNDLE_FILE);
const code = await bundleWorkflows(join(root, 'dist/workflows/index.js'));
writeFileSync(`${file}.${process.pid}`, code);
renameSync(`${file}.${process.pid}`, file);
process.stdout.write(`${BUNDLE_FILE}: ${Math.round(code.length / 1024)} KiB\n`);
