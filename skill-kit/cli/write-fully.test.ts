import { closeSync, openSync, readFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { writeFully } from './write-fully.ts';

it('writes at a place, and says how many bytes that took', () => {
  using folder = new TemporaryFolder();
  const path = folder.file('f');
  const fd = openSync(path, 'w');
  expect([writeFully(fd, path, 'añb', 0), writeFully(fd, path, 'XY', 1), writeFully(fd, path, '')]).toEqual([4, 2, 0]);
  closeSync(fd);
  expect(readFileSync(path, 'utf8')).toBe('aXYb');
});

it('a full disk is named, with the file and what to do', () => {
  const fd = openSync('/dev/full', 'w');
  expect(() => writeFully(fd, '/sessions/s.state', 'x')).toThrow(
    /^\/sessions\/s\.state cannot be written: ENOSPC.* Free space and try again\.$/,
  );
  closeSync(fd);
});
