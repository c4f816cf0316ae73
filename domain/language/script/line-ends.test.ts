import { expect, test } from 'vitest';
import { compileText } from '../load.ts';

const warningsOf = (text: string): readonly string[] =>
  compileText(`kind: workflow\nname: w\nworkflow:\n  steps:\n    - name: a\n${text}`, 'x.yaml', { baseDir: null })
    .diagnostics.map(({ line, severity, message }) => `${line} ${severity}: ${message}`)
    .filter((each) => each.includes('CR LF'));

test.each(['echo a\\r\\nfi\\r\\n', 'echo a\\r'])(
  'a script with CR LF in quotes is a warning with its place: %s',
  (text) => {
    expect(warningsOf(`      run: "${text}"\n`)).toEqual([
      '6 warning: `run` of step "a" has lines that end with CR LF, as on Windows: a shell reads the carriage return as part of the last word',
    ]);
  },
);

test('a script in a block of a file with CR LF causes no warning, because YAML normalizes line ends', () => {
  expect(warningsOf('      run: |\r\n        echo a\r\n        echo b\r\n')).toEqual([]);
  expect(warningsOf('      run: "printf \'a\\rb\'"\n')).toEqual([]);
});
