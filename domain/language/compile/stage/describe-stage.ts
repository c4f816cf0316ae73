import type { Spec, StageSpec } from '../../read/spec.ts';
import { quote } from '../../../units/quote.ts';

export function describeStage(spec: Spec, { name }: StageSpec): string {
  switch (spec.kind) {
    case 'workflow':
      return `step ${quote(name.value)}`;
    case 'pipeline':
      return `box ${quote(name.value)}`;
    case 'agent':
      return '`agent`';
    case 'sandbox':
      return 'the sandbox';
  }
}
