import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../../setup/package-root.ts';
import { temporalCliForTests } from './temporal-cli.ts';

test('a test run that is killed leaves no dev server behind', { timeout: 300_000 }, async () => {
  const script = join(findPackageRoot(), 'dist/.storm/rig/servers/test-server.js');
  const code = `const { startTestServer } = await import(${JSON.stringify(script)});
console.log((await startTestServer(${JSON.stringify(await temporalCliForTests())})).pid);
setInterval(() => undefined, 1000);`;
  const run = spawn(process.execPath, ['--input-type=module', '-e', code], { stdio: ['ignore', 'pipe', 'inherit'] });
  const server = await new Promise<string>((resolve, reject) => {
    run.stdout.on('data', (chunk: Buffer) => resolve(chunk.toString().trim()));
    run.once('close', () => reject(new Error('the server did not start')));
  });
  expect(existsSync(`/proc/${server}`)).toBe(true);
  run.kill('SIGKILL');
  for (const end = Date.now() + 10_000; existsSync(`/proc/${server}`) && Date.now() < end;) await sleep(50);
  expect(existsSync(`/proc/${server}`)).toBe(false);
});
