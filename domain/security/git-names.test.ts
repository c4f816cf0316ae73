import { expect, test } from 'vitest';
import { isDotGit, repositoryPartNamed } from './git-names.ts';

test('every name that a file system takes for `.git` is recognized', () => {
  const plain = [
    '.git',
    '.GIT',
    '.Git',
    '.git ',
    '.git.',
    '.git. .',
    'git~1',
    'GIT~1',
    'git~2',
    '.git::$INDEX_ALLOCATION',
  ];
  for (const name of [...plain, '.g\u200cit', '\ufeff.git', '.gi\u206at', '.git\\x', '.git:\n', '．git'])
    expect([name, isDotGit(name)]).toEqual([name, true]);
});

test('a name that no file system reads as `.git` is not part of a repository', () => {
  for (const name of [
    'git',
    '.gitignore',
    '.github',
    '.gitmodules',
    '.git-x',
    'x.git',
    '..git',
    'git~',
    'git~1x',
    '.gît',
    '',
  ])
    expect([name, isDotGit(name)]).toEqual([name, false]);
});

test('a part of a repository is found in any case', () => {
  expect(['HEAD', 'head', 'Objects', 'refs.', 'commondir', 'heads'].map(repositoryPartNamed)).toEqual([
    'HEAD',
    'HEAD',
    'objects',
    'refs',
    'commondir',
    null,
  ]);
});
