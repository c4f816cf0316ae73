/**
 * The names of rules for values of a plan. `domain/language/plan-value-rules.ts` has the rules, because readers of
 * stored plans do not apply them.
 */

export type TextRule =
  | 'text'
  | 'some-text'
  | 'name'
  | 'scope-id'
  | 'variable'
  | 'label'
  | 'message'
  | 'field-description'
  | 'expression'
  | 'mock-output'
  | 'reference'
  | 'repository'
  | 'repository-folder'
  | 'branch'
  | 'workspace-url'
  | 'absolute-path'
  | 'guest-path'
  | 'spec-folder-path'
  | 'subfolder'
  | 'working-folder'
  | 'failure-code'
  | 'host'
  | 'network'
  | 'service-name'
  | 'service-host'
  | 'sha256';

export type NumberRule =
  | 'max-parallel'
  | 'allowed-failures'
  | 'visits'
  | 'stage-visits'
  | 'index'
  | 'attempts'
  | 'exit-code'
  | 'stage-timeout-ms'
  | 'run-timeout-ms'
  | 'grace-ms'
  | 'approval-ms'
  | 'wait-ms'
  | 'date-ms'
  | 'pause-ms'
  | 'pause-factor'
  | 'output-bytes'
  | 'memory-mib'
  | 'vcpus'
  | 'disk-mib'
  | 'keep-ms'
  | 'port'
  | 'price-usd'
  | 'cost-usd'
  | 'tokens'
  | 'turns';

export type JsonRule = 'item' | 'condition-value' | 'params' | 'output-schema';

export type ObjectRule = 'agent' | 'approval' | 'approval-field' | 'budget' | 'mount' | 'wait';

export type ListRule = 'service-names';
