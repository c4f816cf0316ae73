import { codeArguments } from './code-arguments.ts';
import { typeOf } from '../read/params.ts';
import type { Problems } from '../text/diagnostics.ts';
import type { Spec, StageSpec } from '../read/spec.ts';
import { quote } from '../../units/quote.ts';

const PARAM = /(?<!\$)\$\{\{\s*params\.([A-Za-z0-9][A-Za-z0-9._-]*)\s*\}\}/g;

/**
 * Warns of parameters in scripts: a text from the user who starts a run becomes code there. Numbers, booleans and the
 * author's choices cannot contain code.
 */
export function warnOfParamsInCode({ run }: StageSpec, { params }: Spec, what: string, problems: Problems): void {
  if (run === null) return;
  const texts = new Map(
    params.flatMap((param) => (['text', 'list'].includes(typeOf(param)) ? [[param.name, param]] : [])),
  );
  const code = codeArguments(
    run.program.value,
    run.args.map(({ value }) => value),
  );
  for (const [index, interpreter] of code) {
    const { value, at } = run.args[index]!;
    const [found, name] = [...value.matchAll(PARAM)].find(([, param]) => texts.has(param!)) ?? [];
    if (found === undefined || name === undefined) continue;
    const fallback = texts.get(name)?.fallback?.value;
    const typed =
      typeof fallback === 'number' || typeof fallback === 'boolean'
        ? `, or declare a ${typeof fallback}: \`${name}: { type: ${typeof fallback}, default: ${fallback} }\``
        : '';
    const variable = name
      .toUpperCase()
      .replaceAll(/[^A-Z0-9_]/g, '_')
      .replace(/^\d/, '_$&');
    problems.warning(
      'spec/bad-placeholder',
      at,
      `\`args\` of ${what} has ${quote(found)} in a program of ${interpreter}, which reads the value as code`,
      `pass it as a variable: \`env: { ${variable}: ${quote(found)} }\`, and read the variable in the program; in a shell script, write "$${variable}"${typed}`,
    );
  }
}
