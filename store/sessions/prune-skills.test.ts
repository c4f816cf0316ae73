import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { SessionUses } from '../../activities/ports/session-stores.ts';
import { createFileSessionPruner, pruneSkills } from './prune-skills.ts';
import { folderUse, markUse } from '../server-mark.ts';

const HOUR_MS = 3_600_000;
const nowMs = Date.now();
const OPTIONS = { olderThanMs: 24 * HOUR_MS, dryRun: false, nowMs };
let dir: string;

beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'voidbox-prune-skills-'));
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

function folder(
  kind: 'sessions' | 'skills',
  name: string,
  ageMs: number,
  servers: readonly string[] = ['embedded'],
): string {
  const path = join(dir, kind, name);
  mkdirSync(path, { recursive: true });
  writeFileSync(join(path, 'records-x.json'), '{}');
  for (const server of servers) markUse(path, server);
  const at = new Date(nowMs - ageMs);
  for (const file of readdirSync(path)) utimesSync(join(path, file), at, at);
  utimesSync(path, at, at);
  return path;
}

function uses(change: Partial<SessionUses> = {}): SessionUses {
  return { serverId: 'embedded', open: new Set(), codeHashes: new Set(), ...change };
}

test('removes data of ended sessions and of their sub-skills, and code that no session runs', () => {
  folder('sessions', 'old', 48 * HOUR_MS);
  folder('sessions', 'old~1', 48 * HOUR_MS);
  folder('sessions', 'young', 2 * HOUR_MS);
  folder('sessions', 'waits', 48 * HOUR_MS);
  folder('skills', 'aaaa', 48 * HOUR_MS);
  folder('skills', 'bbbb', 48 * HOUR_MS);
  expect(pruneSkills(dir, uses({ open: new Set(['waits']), codeHashes: new Set(['bbbb']) }), OPTIONS)).toEqual({
    sessions: ['old', 'old~1'],
    skills: ['aaaa'],
  });
  expect(readdirSync(join(dir, 'sessions')).toSorted()).toEqual(['waits', 'young']);
  expect(readdirSync(join(dir, 'skills'))).toEqual(['bbbb']);
});

test('leaves folders that another server uses, and folders without a mark', () => {
  folder('sessions', 'theirs', 48 * HOUR_MS, ['host:7233/default']);
  folder('sessions', 'nobodys', 48 * HOUR_MS, []);
  folder('skills', 'shared', 48 * HOUR_MS, ['embedded', 'host:7233/default']);
  expect(pruneSkills(dir, uses(), OPTIONS)).toEqual({ sessions: [], skills: [] });
  expect(existsSync(join(dir, 'skills', 'shared'))).toBe(true);
});

test('leaves all code when an open session could not be asked', () => {
  folder('skills', 'aaaa', 48 * HOUR_MS);
  expect(pruneSkills(dir, uses({ codeHashes: null }), OPTIONS).skills).toEqual([]);
});

test('a dry run reports the same and removes nothing', () => {
  folder('sessions', 'old', 48 * HOUR_MS);
  expect(pruneSkills(dir, uses(), { ...OPTIONS, dryRun: true }).sessions).toEqual(['old']);
  expect(existsSync(join(dir, 'sessions', 'old'))).toBe(true);
});

test('the next prune removes a folder that a killed prune had moved aside', async () => {
  folder('sessions', '.removed-1-old', HOUR_MS);
  expect(await createFileSessionPruner(dir).hasAny()).toBe(false);
  pruneSkills(dir, uses(), OPTIONS);
  expect(readdirSync(join(dir, 'sessions'))).toEqual([]);
});

test('a use counts from its last mark', () => {
  const path = folder('skills', 'aaaa', 48 * HOUR_MS);
  markUse(path, 'embedded');
  expect(nowMs - folderUse(path)!.lastMs).toBeLessThan(HOUR_MS);
  expect(pruneSkills(dir, uses(), OPTIONS).skills).toEqual([]);
});
