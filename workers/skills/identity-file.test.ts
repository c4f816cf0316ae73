import { readdirSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { keepIdentity, readIdentity } from './identity-file.ts';

it('the identity of a bundle is stored, and asked again if the file is damaged', () => {
  using folder = new TemporaryFolder();
  const bundle = folder.file('skill.mjs');
  expect(readIdentity(bundle)).toBeNull();
  keepIdentity(bundle, { name: 'greeter', version: '1.0.0', env: ['TOKEN'] });
  expect(readIdentity(bundle)).toEqual({ name: 'greeter', version: '1.0.0', env: ['TOKEN'] });
  const [file] = readdirSync(folder.path);
  for (const damaged of [
    '',
    '{"name":"gree',
    'null',
    '{"name":"greeter"}',
    '{"name":"greeter","version":"1.0.0"}',
    '{"name":"greeter","version":"1.0.0","env":["LD_PRELOAD"]}',
  ]) {
    writeFileSync(folder.file(file!), damaged);
    expect(readIdentity(bundle)).toBeNull();
  }
});
