import { expect, test } from 'vitest';
import { allowsGitPlace, readAllowedPlace, readGitPlace, toGitPlace, toRemotePlace } from './git-place.ts';

test.each([
  ['https://github.com/acme/app', 'github.com/acme/app'],
  ['HTTPS://GitHub.com:443/acme/app.git/', 'github.com/acme/app'],
  ['https://git.example.com:8443/a%20b', 'git.example.com:8443/a%20b'],
  ['https://[::1]/a', '[::1]/a'],
])('the address %s is one place', (address, place) => {
  expect(toGitPlace(address)).toBe(place);
});

test.each([
  'http://github.com/acme/app',
  'https://github.com/',
  'https://github.com',
  'https://github.com/acme/../victim/app',
  'https://github.com/acme/%2e%2e/victim/app',
  'https://github.com/acme%2Fapp',
  'https://github.com/acme//app',
  'https://github.com/acme/app?x=/../victim',
  'https://github.com@evil.example/acme/app',
  'https://github.com\\\\@evil.example/app',
])('the address %s could mean another place, and has no place', (address) => {
  expect(toGitPlace(address)).toBeNull();
});

test.each([
  ['git@github.com:acme/app.git', 'github.com/acme/app'],
  ['github.com:acme/app', 'github.com/acme/app'],
  ['ssh://git@github.com/acme/app.git', 'github.com/acme/app'],
  ['https://token@github.com/acme/app.git', 'github.com/acme/app'],
  ['/srv/git/app.git', null],
  ['../app', null],
  ['file:///srv/app', null],
])('the remote %s has the place %s', (remote, place) => {
  expect(toRemotePlace(remote)).toBe(place);
});

test('an option that allows places accepts no pattern', () => {
  expect(['github.com/acme', 'github.com/*', '*/acme', 'github.com/acme/a*'].map(readAllowedPlace)).toEqual([
    'github.com/acme',
    null,
    null,
    null,
  ]);
});

test('a place allows itself and the places below it', () => {
  const allowed = [readGitPlace('github.com/acme')!];
  expect(
    ['github.com/acme', 'github.com/acme/app', 'github.com/acmes/app', 'github.com'].map((place) =>
      allowsGitPlace(allowed, place),
    ),
  ).toEqual([true, true, false, false]);
  expect(['github.com', 'github.com/', 'https://github.com/a', 'a b/c'].map(readGitPlace)).toEqual([
    null,
    null,
    null,
    null,
  ]);
});
