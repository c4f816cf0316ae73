/** Addresses that a spec fetches with the user's login: which of them the user is asked for. */
import { execFileSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import { readEnvironment } from '../../setup/environment.ts';
import type { Machine } from '../machine.ts';
import { findOrigin, findUnknownAddresses, parsePlaces, settleAddresses } from './plan-addresses.ts';

let dir: string;
beforeEach(() => {
  dir = realpathSync(mkdtempSync(join(tmpdir(), 'voidbox-addresses-')));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

const env = readEnvironment({ PATH: process.env['PATH'], HOME: '/nonexistent' });

function planOf(...urls: readonly string[]) {
  const boxes = urls.map(
    (url, index) => `    - { name: s${index}, workspace: { git: "${url}" }, run: { program: ls } }\n`,
  );
  return compileText(`kind: pipeline\nname: p\npipeline:\n  boxes:\n${boxes.join('')}`, 'p.yaml', { baseDir: '/' })
    .plan!;
}

/** @param answers  of a person on a terminal; null: there is no terminal */
function contextWith(answers: readonly boolean[] | null): { context: Machine; asked: string[] } {
  const asked: string[] = [];
  const confirm = (question: string): Promise<boolean | null> =>
    Promise.resolve(answers === null ? null : (answers[asked.push(question) - 1] ?? null));
  return { context: { env, confirm } as unknown as Machine, asked };
}

const settle = (
  urls: readonly string[],
  answers: readonly boolean[] | null,
  allow: readonly string[] = [],
  mayAsk = true,
) => {
  const { context, asked } = contextWith(answers);
  return settleAddresses({ plan: planOf(...urls), baseDir: dir, allow, mayAsk }, context).then(
    (allowed) => ({ allowed, asked }),
    (error: { code: string; remedy: string }) => ({ code: error.code, remedy: error.remedy, asked }),
  );
};

test('an address is refused without a terminal, and the remedy names the option', async () => {
  expect(await settle(['https://github.com/victim/private.git'], null)).toEqual({
    code: 'cli/git-refused',
    remedy: 'Allow it: --allow-git github.com/victim/private',
    asked: [],
  });
});

test('an address is asked for on a terminal, once, and not if the request forbids questions', async () => {
  const url = 'https://github.com/acme/app';
  expect(await settle([url, url], [true])).toMatchObject({
    allowed: ['github.com/acme/app'],
    asked: [expect.stringContaining(url)],
  });
  expect(await settle([url], [false])).toMatchObject({ code: 'cli/git-refused' });
  expect(await settle([url], [true], [], false)).toMatchObject({ code: 'cli/git-refused', asked: [] });
});

test('`--allow-git` allows a repository and what lies below it', async () => {
  expect(await settle(['https://github.com/acme/app.git'], null, parsePlaces(['github.com/acme']))).toMatchObject({
    asked: [],
  });
  expect(await settle(['https://github.com/acmes/app'], null, parsePlaces(['github.com/acme']))).toMatchObject({
    code: 'cli/git-refused',
  });
  expect(() => parsePlaces(['github.com'])).toThrow('is not HOST/PATH');
  expect(() => parsePlaces(['github.com/*'])).toThrow('`github.com/*` is not HOST/PATH: `*` is not a pattern');
  expect(() => parsePlaces(['https://github.com/acme/*'])).toThrow('`*` is not a pattern');
});

test('an address that could mean another repository is refused, whatever is allowed', async () => {
  expect(await settle(['https://github.com/acme/../victim/app'], [true], ['github.com/acme'])).toMatchObject({
    code: 'cli/git-refused',
    asked: [],
  });
});

test.each(['https://github.com/acme/app.git', 'git@github.com:acme/app.git'])(
  'the origin %s of the repository that holds the spec is not asked for',
  async (origin) => {
    execFileSync('git', ['init', '-q', dir]);
    execFileSync('git', ['-C', dir, 'remote', 'add', 'origin', origin]);
    mkdirSync(join(dir, '.voidbox'));
    expect(await findOrigin(join(dir, '.voidbox'), env)).toBe('github.com/acme/app');
    expect(await settle(['https://github.com/acme/app'], null)).toMatchObject({
      asked: [],
      allowed: ['github.com/acme/app'],
    });
    expect(await findUnknownAddresses(planOf('https://github.com/acme/other'), dir, [], env)).toMatchObject([
      { place: 'github.com/acme/other' },
    ]);
  },
);

test('a configuration that includes another file says nothing by it', async () => {
  execFileSync('git', ['init', '-q', dir]);
  writeFileSync(join(dir, 'other'), '[remote "origin"]\n\turl = https://github.com/victim/private\n');
  writeFileSync(join(dir, '.git/config'), '[include]\n\tpath = ../other\n');
  expect(await findOrigin(dir, env)).toBeNull();
});
