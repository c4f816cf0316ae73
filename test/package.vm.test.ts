import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { copyFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { type InstalledPackage, installPackage } from './rig/runs/packed.ts';

const SPEC = `api_version: v1
kind: workflow
name: packed
sandbox: { memory_mb: 256 }
workflow:
  output_step: only
  steps:
    - name: only
      run: { program: sh, args: [-c, 'echo in a VM as $(id -un)'] }
`;

let installed: InstalledPackage;
let variables: Record<string, string>;
beforeAll(async () => {
  installed = await installPackage();
  await writeFile(join(installed.folder, 'packed.yaml'), SPEC);
  variables = { VOIDBOX_STATE_DIR: mkdtempSync(join(tmpdir(), 'vb-state-')), NO_COLOR: '1' };
}, 300_000);
afterAll(async () => {
  await installed.voidbox(['down'], variables);
  await rm(variables['VOIDBOX_STATE_DIR'] ?? '', { recursive: true, force: true });
  await installed.remove();
});

test('the installed package runs a spec in a real VM', async () => {
  const result = await installed.voidbox(['run', 'packed.yaml'], variables);
  expect(result.exitCode, `${result.stdout}\n${result.stderr}`).toBe(0);
  expect(result.stdout).toContain('in a VM as sandbox');
});

test('client.ts runs a spec through the API of the stack that the command has started', async () => {
  await copyFile(join(findPackageRoot(), 'dist/examples/definitions/client.js'), join(installed.folder, 'client.mjs'));
  const env = { ...process.env, VOIDBOX_SERVER: `unix:${variables['VOIDBOX_STATE_DIR']}/api.sock` };
  const program = { cwd: installed.folder, env, timeout: 120_000 };
  const { stdout } = await promisify(execFile)(process.execPath, ['client.mjs', 'packed.yaml'], program);
  expect(stdout).toMatch(/^started key-\S+\nonly: succeeded\nthe run has succeeded\nin a VM as sandbox\n$/);
});
