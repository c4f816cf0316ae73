/** The commands that the keeper sends to QEMU are the ones that its page and the security page list. */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { findPackageRoot } from '../../setup/package-root.ts';

const ROOT = findPackageRoot();
const QEMU = join(ROOT, 'native/keeper/src/vmm/qemu');

/** The source of the module for QEMU, without its tests. */
function readSources(): string {
  const sources = readdirSync(QEMU).filter((name) => name.endsWith('.rs'));
  return sources.map((name) => readFileSync(join(QEMU, name), 'utf8').split('#[cfg(test)]\nmod tests')[0]!).join('\n');
}

/** The first argument of each call that sends a command: a text, or else the source of the argument. */
function findSent(source: string): readonly string[] {
  const calls = [...source.matchAll(/\b(?:qmp|self)\s*\.(?:run|send)\(\s*([^,)]*)/g)].map(([, argument]) => argument!);
  const written = [...source.matchAll(/"execute": ("[^"]*")/g)].map(([, command]) => command!);
  return [...calls, ...written].map((argument) => /^"(.*)"$/.exec(argument)?.[1] ?? argument);
}

function findListed(page: string): readonly string[] {
  const section = page.split('### Commands to QEMU\n')[1]!.split('\n## ')[0]!;
  const rows = section.split('\n').filter((line) => line.startsWith('- `'));
  return rows.flatMap((row) => [...row.split(': ')[0]!.matchAll(/`([^`]+)`/g)].map(([, command]) => command!));
}

test('the security page lists each command that the keeper sends to QEMU, and no other', () => {
  const sent = new Set(findSent(readSources()));
  expect(sent.size).toBeGreaterThan(8);
  const listed = findListed(readFileSync(join(ROOT, 'docs/reference/security.md'), 'utf8'));
  expect([...listed].sort()).toEqual([...sent].sort());
});

test('the page of the keeper names the same commands', () => {
  const page = readFileSync(join(ROOT, 'docs/reference/keeper.md'), 'utf8');
  const [line] = page.split('\n').filter((each) => each.startsWith('The keeper sends QEMU '));
  const named = new Set([...line!.matchAll(/`([^`]+)`/g)].map(([, command]) => command!));
  expect([...named].sort()).toEqual([...new Set(findSent(readSources()))].sort());
});

test('a command that is not a text in the source is found too', () => {
  expect(
    findSent('qmp\n  .run("stop", x); self.send(name); json!({ "execute": "getfd" }); qmp.run(made(1), y)'),
  ).toEqual(['stop', 'name', 'made(1', 'getfd']);
});
