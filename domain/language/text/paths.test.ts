import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { explainGuestPathRefusal, SYSTEM_FOLDERS } from './paths.ts';

const ROOT = new URL('../../../', import.meta.url);

function namesOfTheGuest(): string[] {
  return readFileSync(new URL('guest/protocol/src/system-folders.txt', ROOT), 'utf8')
    .split('\n')
    .filter((name) => name !== '')
    .map((name) => `/${name}`);
}

test('the compiler, the guest and the docs have the same list of system folders', () => {
  expect([...SYSTEM_FOLDERS].sort()).toEqual(namesOfTheGuest().sort());
  expect(readFileSync(new URL('docs/reference/spec.md', ROOT), 'utf8')).toContain(`\`${SYSTEM_FOLDERS.join(' ')}\``);
  expect(readFileSync(new URL('docs/reference/guest.md', ROOT), 'utf8')).toContain(
    `\`${SYSTEM_FOLDERS.map((folder) => folder.slice(1)).join(' ')}\``,
  );
});

test('no mount can be a system folder or be within one', () => {
  for (const folder of namesOfTheGuest()) {
    expect(explainGuestPathRefusal(folder)).toContain(folder);
    expect(explainGuestPathRefusal(`${folder}/deep/er`)).toContain(folder);
    expect(explainGuestPathRefusal(`${folder}-of-the-user`)).toBeNull();
  }
});
