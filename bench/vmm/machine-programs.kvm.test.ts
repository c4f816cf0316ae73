/** Programs in Rust that no other lane compiles: those of the bench, which is a workspace of its own, and the fuzzer. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';

const COMPILE_LIMIT_MS = 600_000;

test.each([
  ['the programs of the bench', 'bench/vmm/machine', ['--all-targets']],
  ['the fuzzer', '.', ['-p', 'voidbox-vmm', '--features', 'fuzzing', '--example', 'fuzz']],
])('%s compiles without a warning', { timeout: COMPILE_LIMIT_MS }, async (_, folder, words) => {
  await promisify(execFile)('cargo', ['clippy', '--locked', '--quiet', ...words, '--', '-D', 'warnings'], {
    cwd: join(findPackageRoot(), folder),
    timeout: COMPILE_LIMIT_MS,
  });
});
