/** Pages name each other by path and heading; both must be there. */
import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';

const ROOT = findPackageRoot();
const PAGES = ['.', 'docs', 'examples', 'guest/image', 'native/keeper']
  .filter((folder) => existsSync(join(ROOT, folder)))
  .flatMap((folder) =>
    readdirSync(join(ROOT, folder), { recursive: folder === 'docs', encoding: 'utf8' })
      .filter((name) => name.endsWith('.md'))
      .map((name) => join(folder, name)),
  );

/** Error texts of earlier builds, agent skills, issues and other sites name these paths of pages that have moved. */
const EARLIER_PATHS = [
  'agents',
  'api-http',
  'api',
  'benchmarks-steps',
  'benchmarks',
  'cli',
  'crashes',
  'errors',
  'glossary',
  'guest',
  'keeper',
  'protocol',
  'runs',
  'sandbox-api',
  'security',
  'service',
  'sessions',
  'setup',
  'skill-build',
  'skill-cli',
  'skill-kit',
  'skill-lint',
  'skill-mcp',
  'spec',
  'temporal-plugin',
  'temporal',
  'typescript',
  'void-box',
  'workspaces',
];

/** As GitHub makes them of headings. */
function anchorOf(heading: string): string {
  return heading
    .toLowerCase()
    .replace(/[^\p{L}\p{N} _-]/gu, '')
    .replaceAll(' ', '-');
}

function anchorsOf(file: string): string[] {
  return [...readFileSync(file, 'utf8').matchAll(/^#+ (.+)$/gm)].map(([, heading = '']) => anchorOf(heading));
}

test.each(PAGES)('%s leads nowhere that is not there', (page) => {
  const file = join(ROOT, page);
  const text = readFileSync(file, 'utf8').replace(/^```.*?^```$/gms, '');
  const broken = [...text.matchAll(/\]\(([^)\s]+)\)/g)]
    .map(([, target = '']) => target)
    .filter((target) => !/^[a-z]+:/.test(target))
    .filter((target) => {
      const [path = '', anchor] = target.split('#');
      const named = path === '' ? file : resolve(dirname(file), path);
      return !existsSync(named) || (anchor !== undefined && !anchorsOf(named).includes(anchor));
    });
  expect(broken).toEqual([]);
});

test.each(EARLIER_PATHS)('docs/%s.md is one line that links to the page', (name) => {
  const text = readFileSync(join(ROOT, `docs/${name}.md`), 'utf8');
  expect(text).toMatch(/^[^\n]+\n$/);
  const [, target = ''] = /\]\(([^)#]+)\)/.exec(text) ?? [];
  expect(existsSync(join(ROOT, 'docs', target)), target).toBe(true);
});
