import { expect, test } from 'vitest';
import type { Plan } from '../../domain/plan/plan.ts';
import { compileText } from '../../domain/language/load.ts';
import { FIRST_SPEC } from './first-spec.ts';

function planFor(who: string): Plan {
  const { plan, diagnostics } = compileText(FIRST_SPEC, 'voidbox.yaml', { baseDir: '/home/ada', params: { who } });
  expect(diagnostics).toEqual([]);
  return plan!;
}

/** Returns all commands of a plan, with their variables. */
function commandsOf({ stages }: Plan): readonly { readonly command: readonly string[]; readonly env: unknown }[] {
  return stages.flatMap(({ work }) =>
    work.kind === 'command' ? [{ command: [work.program, ...work.args], env: work.env }] : [],
  );
}

test('the spec of `init` is valid, and a parameter reaches its script only as a variable', () => {
  const [ada, hostile] = [planFor('ada'), planFor('$(rm -rf /workspace)"; exit 1')].map(commandsOf);
  expect(hostile!.map(({ command }) => command)).toEqual(ada!.map(({ command }) => command));
  expect(hostile!.at(-1)!.env).toEqual([
    { name: 'VOIDBOX_VALUE_1', value: { kind: 'literal', text: '$(rm -rf /workspace)"; exit 1' } },
  ]);
});
