import { expect, test } from 'vitest';
import { compileText } from '../language/load.ts';
import { nameUploads, readUploadHashes } from './name-uploads.ts';

const A = 'a'.repeat(64);

test('mounts, repositories and agent skills of an upload have its hash, and other paths stay', () => {
  const spec = `kind: workflow
name: w
llm: { provider: claude }
sandbox: { image: dev, mounts: [{ host: /up/data, guest: /data, mode: ro }, { host: /up2, guest: /more, mode: ro }] }
workflow:
  steps:
    - { name: a, prompt: Do it., skills: [file:/up/skill.md], workspace: { git: /up/app } }
`;
  const { plan, diagnostics } = compileText(spec, 'spec.yaml', { baseDir: '/' });
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  const named = JSON.stringify(nameUploads(plan!, { '/up': A }));
  expect(named.match(/"(?:sha256:|\/up)[^"]*"/g)?.toSorted()).toEqual([
    '"/up2"',
    `"sha256:${A}/app"`,
    `"sha256:${A}/data"`,
    `"sha256:${A}/skill.md"`,
  ]);
});

test('a mark or record that is damaged names no upload', () => {
  expect(readUploadHashes({ '/up': A, relative: A, '/other': 'x', '/number': 1 })).toEqual({ '/up': A });
  expect([null, undefined, 'x', 7].map(readUploadHashes)).toEqual([{}, {}, {}, {}]);
});
