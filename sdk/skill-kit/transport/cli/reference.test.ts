import { expect, it } from 'vitest';
import { reference } from '../../index.bundled.ts';
import { runReferenceCommand } from './commands.ts';

const guide = reference({ name: 'guide', description: 'A guide' })
  .topic('one', { label: 'The first', content: () => 'First text' })
  .topic('two', { label: 'The second', content: ({ refs }) => refs.load('two.md') })
  .build();

async function run(...argv: string[]): Promise<[code: number, stdout: string, stderr: string]> {
  let [stdout, stderr] = ['', ''];
  const code = await runReferenceCommand(guide, {
    argv,
    stdout: (text) => void (stdout += text),
    stderr: (text) => void (stderr += text),
    readStdin: async () => '',
    script: '/nowhere/guide.mjs',
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
  expect(await run('topic', 'three')).toEqual([1, '', 'error: Unknown topic "three". There are: one, two.\n']);
  expect(await run('topic')).toEqual([1, '', 'error: topic takes the name of one. There are: one, two.\n']);
  expect(await run('start')).toEqual([1, '', 'error: unknown command "start". There are: topics, topic <name>, mcp.\n']);
  expect((await run('topic', 'two'))[2]).toContain('The reference "two.md" cannot be read');
  const [code, stdout, stderr] = await run('--help');
  expect([code, stdout]).toEqual([0, '']);
  expect(stderr).toContain('guide 0.0.0\nA guide\n');
});
