import type { Problems } from '../text/diagnostics.ts';
import { readEntries, readText } from './reader.ts';
import type { TreeNode } from '../text/tree.ts';
import { quote } from '../../units/quote.ts';
import type { EnvSpec } from './table.ts';
import { isVariable, VARIABLE_LIMITS, VARIABLE_REMEDY } from './values.ts';

/** Reads a mapping `env`. An empty value names a variable of the host. */
export function readVariables(node: TreeNode | null, what: string, problems: Problems): readonly EnvSpec[] {
  const entries = readEntries(node, what, problems);
  const over = entries[VARIABLE_LIMITS.count];
  if (over !== undefined)
    problems.error(
      'spec/too-large',
      over[1].keyAt,
      `${what} has ${entries.length} variables; it can have at most ${VARIABLE_LIMITS.count}`,
      'put large settings into a file that is mounted',
    );
  return entries.slice(0, VARIABLE_LIMITS.count).flatMap(([name, { keyAt, value }]): EnvSpec[] => {
    if (!isVariable(name)) {
      problems.error('spec/bad-name', keyAt, `${what} names the variable ${quote(name)}`, VARIABLE_REMEDY);
      return [];
    }
    if (value.kind === 'scalar' && value.value === null) {
      problems.error(
        'spec/wrong-type',
        keyAt,
        `${what} gives the variable ${name} no value`,
        `write \`${name}: ""\` to take the host's variable of that name`,
      );
      return [];
    }
    const text = readText(value, `the variable ${name} in ${what}`, problems, true);
    return text === null ? [] : [{ name, at: keyAt, value: text }];
  });
}
