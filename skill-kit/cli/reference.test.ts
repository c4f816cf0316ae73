import { mkdirSync, writeFileSync } from 'node:fs';
import { expect, it } from 'vitest';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { reference } from '../index.bundled.ts';
import { runReferenceCommand } from './commands.ts';

const guide = reference({ name: 'guide', description: 'A guide' })
  .topic('one', { label: 'The first', content: () => 'First text' })
  .topic('two', { label: 'The second', content: ({ refs }) => refs.load('two.md') })
  .build();

function run(...argv: string[]): Promise<[code: number, stdout: string, stderr: string]> {
  return runFrom('/nowhere/guide.mjs', ...argv);
}

async function runFrom(script: string, ...argv: string[]): Promise<[code: number, stdout: string, stderr: string]> {
  let [stdout, stderr] = ['', ''];
  const code = await runReferenceCommand(guide, {
    argv,
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    readStdin: async () => '',
    script,
  });
  return [code, stdout, stderr];
}

it('a reference lists its topics, also without a command, and prints one', async () => {
  const list = 'one: The first\ntwo: The second\n';
  expect(await run()).toEqual([0, list, '']);
  expect(await run('topics')).toEqual([0, list, '']);
  expect(await run('topic', 'one')).toEqual([0, 'First text\n', '']);
});

it('errors name what there is', async () => {
  expect(await run('topic', 'three')).toEqual([1, '', 'error: Unknown topic "three". Topics: one, two.\n']);
  expect(await run('topic')).toEqual([1, '', 'error: topic needs the name of a topic. Topics: one, two.\n']);
  expect(await run('start')).toEqual([
    2,
    '',
    'error: "start" is not a command. Commands: topics, topic <name>, mcp.\n',
  ]);
  const surplus = 'takes no argument "bogus". --help lists its flags.\n';
  expect(await run('topics', 'bogus')).toEqual([2, '', `error: topics ${surplus}`]);
  expect(await run('topic', 'one', 'bogus')).toEqual([2, '', `error: topic ${surplus}`]);
  expect((await run('topic', 'two'))[2]).toContain('The reference "two.md" cannot be read');
  const [code, stdout, stderr] = await run('--help');
  expect([code, stdout]).toEqual([0, '']);
  expect(stderr).toContain('guide 0.0.0\nA guide\n');
});

it('defect: texts are found from the script, be it in bin/ or beside them', async () => {
  using folder = new TemporaryFolder();
  mkdirSync(folder.file('references'));
  writeFileSync(folder.file('references/two.md'), 'Second text');
  for (const script of ['guide.mjs', 'bin/guide.mjs'])
    expect(await runFrom(folder.file(script), 'topic', 'two')).toEqual([0, 'Second text\n', '']);
});
