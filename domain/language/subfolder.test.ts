import { expect, test } from 'vitest';
import { checkPlan } from './check-plan.ts';
import { compileText } from './load.ts';
import { toWire } from '../plan/wire.ts';

function compile(workspace: string, work = 'run: { program: ls }'): ReturnType<typeof compileText> {
  const box = `{ name: fix, workspace: ${workspace}, ${work} }`;
  return compileText(`kind: pipeline\nname: p\npipeline:\n  boxes: [${box}]\n`, 'p.yaml', { baseDir: '/spec' });
}

test('`subfolder` of a workspace is the working folder of its command', () => {
  const { plan, diagnostics } = compile('{ git: ., subfolder: ./packages//a/ }');
  expect(diagnostics).toEqual([]);
  expect(plan!.stages[0]).toMatchObject({
    work: { cwd: '/workspace/repository/packages/a' },
    workspace: { guestPath: '/workspace/repository', subfolder: 'packages/a' },
  });
  expect(checkPlan(toWire(plan!))).toEqual({ plan });
});

test('`subfolder: .` is the top folder', () => {
  expect(compile('{ git: ., subfolder: . }').plan!.stages[0]!.workspace).not.toHaveProperty('subfolder');
});

test.each(['..', 'a/../../b', '/a'])('`subfolder: %s` is refused with its place', (path) => {
  const { plan, diagnostics } = compile(`{ git: ., subfolder: "${path}" }`);
  expect(plan).toBeNull();
  expect(diagnostics).toMatchObject([
    { code: 'spec/bad-path', line: 4, message: expect.stringContaining(`"${path}"`) },
  ]);
});

test.each(['..', '/a', 'a/..', './a', '.'])('a plan with the subfolder %s is refused', (subfolder) => {
  const wire = toWire(compile('{ git: ., subfolder: a }').plan!);
  const stages = wire.stages.map((stage) => ({ ...stage, workspace: { ...stage.workspace, subfolder } }));
  expect(checkPlan({ ...wire, stages })).toHaveProperty('problems');
});
