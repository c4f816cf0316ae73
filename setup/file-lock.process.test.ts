import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

it('`withFileLock` returns even if its holder has already ended', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'file-lock-test-'));
  try {
    writeFileSync(join(folder, 'flock'), '#!/bin/sh\necho\n', { mode: 0o755 });
    const module = new URL('./file-lock.mjs', import.meta.url).href;
    const program = `import { setTimeout } from 'node:timers/promises';
      import { withFileLock } from ${JSON.stringify(module)};
      console.log(await withFileLock(${JSON.stringify(join(folder, 'lock'))}, async () => { await setTimeout(500); return 'done'; }));`;
    const { stdout } = await promisify(execFile)(process.execPath, ['--input-type=module', '-e', program], {
      env: { PATH: `${folder}:/usr/bin:/bin` },
      timeout: 20_000,
    });
    expect(stdout).toBe('done\n');
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
