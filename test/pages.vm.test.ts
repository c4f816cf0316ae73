/** Every command of the README, the first pages and the guides runs as a reader types it, in an empty folder. */
import { execFile, execFileSync } from 'node:child_process';
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { findPackageRoot } from '../setup/package-root.ts';
import { BIN, Rig } from './e2e/rig.ts';
import { type PagePart, readPageParts } from './rig/pages.ts';
import { endRig } from './rig/runs/examples.ts';

const ROOT = findPackageRoot();
/** These take longest, and so they begin first. */
const LONGEST = ['docs/start/first-agent.md', 'docs/guides/write-a-step-machine.md', 'README.md'];
/** Its last command stops the stack, which the next page of the place would start again. */
const LAST = 'docs/start/first-run.md';
const OTHERS = ['docs/start', 'docs/guides']
  .flatMap((folder) => readdirSync(join(ROOT, folder)).map((name) => `${folder}/${name}`))
  .filter((path) => path.endsWith('.md') && path !== LAST && !LONGEST.includes(path));
const PAGES = [...LONGEST, ...OTHERS, 'ARCHITECTURE.md', LAST];

/** A page has a place for itself while it runs, because `latest` and `down` mean all of a state folder. */
interface Place {
  readonly rig: Rig;
  readonly bin: string;
}

/** As many as pages run side by side: a VM keeps one CPU busy, and while it boots, commands wait. */
const MOST_PLACES = 2;
const places: Place[] = [];
const freePlaces: Place[] = [];
const waiting: ((place: Place) => void)[] = [];

afterAll(async () => {
  const ended = await Promise.allSettled(places.map(({ rig }) => endRig(rig)));
  for (const end of ended) if (end.status === 'rejected') throw end.reason;
});

async function takePlace(): Promise<Place> {
  const free = freePlaces.pop();
  if (free !== undefined) return free;
  if (places.length < MOST_PLACES) return makePlace();
  return await new Promise((resolve) => waiting.push(resolve));
}

function givePlace(place: Place): void {
  const next = waiting.shift();
  if (next === undefined) freePlaces.push(place);
  else next(place);
}

function makePlace(): Place {
  const rig = new Rig();
  const bin = join(rig.specDir, 'bin');
  mkdirSync(bin);
  symlinkSync(BIN, join(bin, 'voidbox'));
  const place = { rig, bin };
  places.push(place);
  return place;
}

/** A folder in which npx finds Voidbox, as it does in a checkout. */
function makeHome({ rig }: Place): string {
  const home = mkdtempSync(join(rig.specDir, 'page-'));
  mkdirSync(join(home, 'node_modules/.bin'), { recursive: true });
  symlinkSync(BIN, join(home, 'node_modules/.bin/voidbox'));
  return home;
}

/**
 * Makes a repository with what the README names of a checkout, as the package has it: a configuration of TypeScript
 * names other folders.
 */
function copyCheckout(home: string): void {
  const filter = (from: string): boolean => basename(from) !== 'tsconfig.json';
  execFileSync('git', ['init', '--quiet', home]);
  for (const name of ['examples', 'docs', 'package.json'])
    cpSync(join(ROOT, name), join(home, name), { recursive: true, filter });
}

function readPage(path: string): readonly PagePart[] {
  return readPageParts(path, readFileSync(join(ROOT, path), 'utf8'));
}

test.concurrent.each(PAGES)('the commands of %s succeed', { timeout: 900_000 }, async (path) => {
  const parts = readPage(path);
  for (const part of parts) if (part.kind === 'run-in') requireRunIn(path, part);
  if (!parts.some(({ kind }) => kind === 'run')) return;
  const place = await takePlace();
  try {
    await runPage(path, parts, place);
  } finally {
    givePlace(place);
  }
});

/** A command that the other page no longer runs would run nowhere. */
function requireRunIn(path: string, { page, commands, line }: Extract<PagePart, { readonly kind: 'run-in' }>): void {
  expect(PAGES).toContain(page);
  const run = readPage(page).flatMap((part) => (part.kind === 'run' ? part.commands : []));
  for (const command of commands) expect(run, `${path}:${line}`).toContain(command);
}

async function runPage(path: string, parts: readonly PagePart[], place: Place): Promise<void> {
  const home = makeHome(place);
  if (path === 'README.md') copyCheckout(home);
  let cwd = home;
  for (const part of parts) {
    if (part.kind === 'not-run' || part.kind === 'run-in') continue;
    if (part.kind === 'file') {
      mkdirSync(dirname(join(cwd, part.path)), { recursive: true });
      writeFileSync(join(cwd, part.path), part.text);
      continue;
    }
    for (const command of part.commands) {
      const { code, output } = await runInShell(`${command}\npwd > ${join(home, '.cwd')}`, cwd, place);
      expect(code, `${path}:${part.line}: ${command}\n${output}`).toBe(0);
      cwd = readFileSync(join(home, '.cwd'), 'utf8').trim();
    }
  }
}

async function runInShell(
  script: string,
  cwd: string,
  { rig, bin }: Place,
): Promise<{ readonly code: number; readonly output: string }> {
  return await new Promise((resolve) => {
    const child = execFile(
      'bash',
      ['-euc', script],
      { cwd, env: { ...rig.env, PATH: `${bin}:${process.env['PATH']}` }, maxBuffer: 32 * 1024 * 1024 },
      (_error, stdout, stderr) => resolve({ code: child.exitCode ?? 1, output: `${stdout}\n${stderr}` }),
    );
  });
}
