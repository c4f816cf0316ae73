import { expect, test } from 'vitest';
import type { Plan } from '../../plan/plan.ts';
import { toWire } from '../../plan/wire.ts';
import { compileText } from '../load.ts';
import { checkPlan } from '../check-plan.ts';

const SPEC = `
api_version: v1
kind: pipeline
name: fix
sandbox: { image: dev }
pipeline:
  boxes:
    - name: make
      run: { program: "true" }
      outputs: [{ name: data }]
    - name: fix
      run: { program: "true" }
      workspace: { git: . }
    - name: test
      run: { program: "true" }
      workspace: { from: fix }
`;

/* oxlint-disable typescript/no-explicit-any */
function changed(change: (plan: any) => void): unknown {
  const { plan } = compileText(SPEC, 'spec.yaml', { baseDir: '/home/ada', params: {} });
  const wire = JSON.parse(JSON.stringify(toWire(plan as Plan)));
  change(wire);
  return checkPlan(wire);
}

test('a plan of the compiler passes', () => {
  expect(changed(() => undefined)).toHaveProperty('plan');
});

test('a workspace that the host writes needs no git in its VM', () => {
  expect(changed((plan) => delete plan.scopes[1].sandbox.image)).toHaveProperty('plan');
});

test.each<[string, (plan: any) => void, RegExp]>([
  ['a relative folder', (plan) => (plan.stages[1].workspace.from.source.path = 'app'), /workspace\.from\.source\.path/],
  ['a ref that is an option', (plan) => (plan.stages[1].workspace.from.ref = '--all'), /workspace\.from\.ref/],
  [
    'another protocol',
    (plan) => (plan.stages[1].workspace.from = { kind: 'url', url: 'ext::sh -c id', ref: null }),
    /workspace\.from\.url/,
  ],
  [
    'an address with a password',
    (plan) => (plan.stages[1].workspace.from = { kind: 'url', url: 'https://a:b@example.com/x', ref: null }),
    /workspace\.from\.url/,
  ],
  ['a system folder', (plan) => (plan.stages[1].workspace.guestPath = '/etc/app'), /workspace\.guestPath/],
  [
    'the folder of its input',
    (plan) => (plan.stages[1].workspace.guestPath = '/workspace'),
    /at \/workspace and files of its own in \/workspace/,
  ],
  [
    'a folder around the home',
    (plan) => (plan.stages[1].workspace.guestPath = '/home'),
    /at \/home and files of its own in \/home\/sandbox/,
  ],
  [
    'a continued workspace without git',
    (plan) => delete plan.scopes[2].sandbox.image,
    /the image of its VM has no git/,
  ],
  ['a simulated VM', (plan) => (plan.scopes[1].sandbox = { mode: 'mock', isolation: 'none' }), /simulated VM/],
  [
    'a workspace of a stage without one',
    (plan) => (plan.stages[2].workspace.from.stage = 'make'),
    /continues the workspace of make, which has no workspace/,
  ],
  [
    'a workspace of a stage that leaves no changes',
    (plan) => (plan.stages[1].workspace.changes = 'none'),
    /continues the workspace of fix, which hands on no workspace/,
  ],
  ['a stage that is not waited for', (plan) => (plan.stages[2].after = []), /uses data of fix and does not depend/],
  [
    'a failure that is tolerated',
    (plan) => (plan.stages[1].continueOnError = true),
    /uses data of fix, which may be absent/,
  ],
  [
    'an output that is called like one of the workspace',
    (plan) => (plan.stages[1].outputs = [{ name: 'base.bundle', guestPath: '/workspace/x' }]),
    /an output with the name base\.bundle/,
  ],
  [
    'an output that has the name of partial changes',
    (plan) => (plan.stages[1].outputs = [{ name: 'partial.patch', guestPath: '/workspace/x' }]),
    /an output with the name partial\.patch/,
  ],
  [
    'an input in it',
    (plan) =>
      (plan.stages[1].inputs = [{ fromStage: 'make', output: 'data', guestPath: '/workspace/repository/data' }]),
    /other files at \/workspace\/repository\/data/,
  ],
  [
    'a mount around it',
    (plan) => (plan.scopes[1].sandbox.mounts = [{ hostPath: '/data', guestPath: '/workspace', mode: 'rw' }]),
    /other files at \/workspace/,
  ],
  [
    'a shared VM',
    (plan) => {
      plan.scopes = [{ id: 'all', stages: ['make', 'fix', 'test'], sandbox: plan.scopes[0].sandbox }];
      for (const stage of plan.stages) stage.scope = 'all';
    },
    /shares its VM/,
  ],
  ['a service', (plan) => (plan.stages[1].work.service = true), /is a service/],
  ['a stage after all others', (plan) => (plan.stages[2].finally = true), /runs after all others/],
  [
    'work without a command',
    (plan) => {
      plan.stages[1].work = { kind: 'approval', message: 'Go on?' };
      plan.stages[1].scope = null;
      plan.scopes.splice(1, 1);
    },
    /neither command nor agent/,
  ],
])('%s is refused', (_what, change, problem) => {
  const checked = changed(change) as { readonly problems?: readonly string[] };
  expect(checked.problems?.join('\n') ?? 'no problem').toMatch(problem);
});
