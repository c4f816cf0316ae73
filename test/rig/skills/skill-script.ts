/** A skill in a script of its own, run from `dist/` as its users run it. */
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { onTestFinished } from 'vitest';

const DIST = join(dirname(dirname(dirname(dirname(fileURLToPath(import.meta.url))))), 'dist/skill-kit');
const url = (path: string): string => pathToFileURL(join(DIST, path)).href;

/**
 * @param code  sees `skill`, `reference`, `terminal`, `z` and the `mcp*Main` functions
 * @returns the script's path; it lies in a `bin` folder beside `references/`, and is removed after the test
 */
export async function skillScript(code: string, references: Readonly<Record<string, string>> = {}): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'voidbox-skill-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  await Promise.all(['bin', 'references'].map((name) => mkdir(join(folder, name))));
  await Promise.all(
    Object.entries(references).map(([name, text]) => writeFile(join(folder, 'references', name), text)),
  );
  const path = join(folder, 'bin/skill.mjs');
  const imports = [
    `import { skill, reference, terminal, z } from '${url('index.js')}';`,
    `import { mcpMain, mcpCompositeMain, mcpReferenceMain } from '${url('mcp/main.js')}';`,
  ];
  await writeFile(path, [...imports, code].join('\n'));
  return path;
}
