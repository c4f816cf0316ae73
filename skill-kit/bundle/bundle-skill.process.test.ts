/** Sessions name their code by its hash, and continue with the stored file of that code. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { builtinModules } from 'node:module';
import { expect, test } from 'vitest';
import { parseAst } from 'rolldown/parseAst';
import { TemporaryFolder } from '../../test/rig/skills/skill-command.ts';
import { bundleSkill } from './bundle-skill.ts';

const SKILL = `
  import { skill, terminal, z } from 'voidbox/skill-kit';
  import { main } from 'voidbox/skill-kit/cli';
  export default skill({ name: 'reader', description: 'Reads.', version: '1.0.0', entry: 'end' })
    .step('end', { prompt: 'Read it.', response: z.object({ text: z.string() }), next: terminal })
    .build();
  void main;
`;

function put(file: string): string {
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, SKILL);
  return file;
}

test('the hash of code depends neither on where the skill lies nor on where the kit does', async () => {
  using folder = new TemporaryFolder();
  const near = await bundleSkill(put(folder.file('near/skill.ts')), folder.file('state'));
  const far = await bundleSkill(put(folder.file('far/far/away/skill.ts')), folder.file('state'));
  expect(far.codeHash).toBe(near.codeHash);
  expect(readFileSync(near.bundle, 'utf8')).not.toMatch(/dist\/|skill-kit\/(?:author|drive|prompt)\//);
});

test('kept code asks for nothing but modules of Node: files of the kit may move while its session is open', async () => {
  using folder = new TemporaryFolder();
  const { bundle } = await bundleSkill(put(folder.file('near/skill.ts')), folder.file('state'));
  const { body } = parseAst(readFileSync(bundle, 'utf8'), { lang: 'js' }, bundle);
  const asked = body.flatMap((one) => (one.type === 'ImportDeclaration' ? [one.source.value] : []));
  expect(asked.filter((name) => !builtinModules.includes(name.replace(/^node:/, '')))).toEqual([]);
  expect(readFileSync(bundle, 'utf8')).not.toContain(join(folder.path, 'near'));
});
