"""Evidence: what a run leaves behind. The catalogue of events, trace files, their verification, replay.

The law itself keeps the decision chain (`law.chain`) and tells its observer what happens (`law.dispatch`); everything
else is here, and none of it runs unless somebody asked for it.
"""
