/** Before server tests: a folder in which the first file that needs the workflow bundle leaves it for the others. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TestProject } from 'vitest/node';
import { BUNDLE_FOLDER } from './workflow-bundle.ts';

export default function setup(project: TestProject): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'workflow-bundle-'));
  process.env[BUNDLE_FOLDER] = folder;
  // A run of `vitest watch` comes after a change, which may be one of the workflows.
  project.onTestsRerun(() => {
    for (const name of readdirSync(folder)) rmSync(join(folder, name));
  });
  return () => {
    delete process.env[BUNDLE_FOLDER];
    rmSync(folder, { recursive: true, force: true });
  };
}
