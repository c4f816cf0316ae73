import { expect, test } from 'vitest';
import { COMMANDS } from '../../cli/command-table.ts';

test('each command refuses a state folder of another format, except those that open none or end and show what runs there', async () => {
  const entries = COMMANDS.flatMap((entry) =>
    'commands' in entry
      ? entry.commands.map(({ name, load }) => ({ name: `${entry.name} ${name}`, load }))
      : [{ name: entry.name, load: entry.load }],
  );
  const taking: string[] = [];
  for (const { name, load } of entries) if ((await load()).command.takesAnyStateFormat === true) taking.push(name);
  expect(taking.sort()).toEqual([
    'doctor',
    'down',
    'explain',
    'init',
    'login',
    'logout',
    'ps',
    'schema',
    'skill build',
    'skill check',
    'skill graph',
    'skill lint',
    'skill run',
    'snapshot delete',
    'snapshot list',
    'snapshot show',
    'version',
  ]);
});
