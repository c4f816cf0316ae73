/** A conflict that was committed unresolved reads as prose in a page and as a string in a fixture: no other test sees it. */
import { execFileSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';

/** The lines that Git writes around a conflict; `=======` alone also underlines headings. */
const MARKERS = '^(<<<<<<<|>>>>>>>|\\|\\|\\|\\|\\|\\|\\|)( |$)';

/** `file:line:text` of each marker below a folder, ignored files left out. */
function findMarkers(folder: string): readonly string[] {
  try {
    // Without an index, so that files that are not added yet count too.
    const found = execFileSync('git', ['grep', '--no-index', '--exclude-standard', '-InE', MARKERS, '--', '.'], {
      cwd: folder,
      encoding: 'utf8',
    });
    return found.trimEnd().split('\n');
  } catch (error) {
    // 1: nothing was found. Anything else is a search that did not happen.
    if ((error as { readonly status?: number }).status === 1) return [];
    throw error;
  }
}

test('no file holds a merge-conflict marker', () => {
  expect(findMarkers(findPackageRoot())).toEqual([]);
});

test.each(['<<<<<<< HEAD', '>>>>>>> 0123abc (a commit)', '||||||| base'])('a line %j is found', (line) => {
  const folder = mkdtempSync(join(tmpdir(), 'voidbox-markers-'));
  try {
    writeFileSync(join(folder, 'page.md'), `# Page\n\n${line}\n`);
    expect(findMarkers(folder)).toEqual([`page.md:3:${line}`]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});
