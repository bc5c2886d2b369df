/* A broken rule ends the process and names the rule; a rule that holds does nothing, and is evaluated once. */
#include "check.h"

#include "law/rule.h"

int
main(void)
{
    int evaluated = 0;
    LAW_RULE(++evaluated == 1, "EXAMPLE-1");
    CHECK_EQUAL(evaluated, 1);
    CHECK_BREAKS("EXAMPLE-1", LAW_RULE(++evaluated == 1, "EXAMPLE-1"));
    return finish();
}
