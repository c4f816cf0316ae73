import type { Diagnostic } from '../errors/diagnostic.ts';
import type { Plan } from '../plan/plan.ts';
import { type CompileOptions, compilePlan } from './compile.ts';
import { parseSpec } from './parse.ts';
import { inOrder } from './problems.ts';

/** A spec's text to its plan, with every mistake of both steps. `plan` is null when there is an error among them. */
export function compileText(
  text: string,
  file: string,
  options: CompileOptions,
): { readonly plan: Plan | null; readonly diagnostics: readonly Diagnostic[] } {
  const parsed = parseSpec(text, file);
  if (parsed.spec === null) return { plan: null, diagnostics: parsed.diagnostics };
  const compiled = compilePlan(parsed.spec, options);
  const diagnostics = inOrder([...parsed.diagnostics, ...compiled.diagnostics]);
  return { plan: diagnostics.some(({ severity }) => severity === 'error') ? null : compiled.plan, diagnostics };
}
